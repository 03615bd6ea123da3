#include "gpu_actions.hpp"

#include <algorithm>

#include "executor/local_work.hpp"
#include "executor/transfers.hpp"
#include "ppsim/core/execution/facts.hpp"
#include "ppsim/core/ir/padding.hpp"
#include "stage_model/gradient_norm.hpp"

namespace ppsim::gpu_backend {

GpuActions::GpuActions(const GpuRunInput& input, const TensorMap& tensors, RankDevice& device)
    : program_(input.program),
      pipeline_(input.program.pipeline()),
      model_(input.model),
      options_(input.options),
      tensors_(tensors),
      device_(device) {
  device_.make_current();
  try {
    stages_ = model_.open(pipeline_, device_.place());
  } catch (const BackendError& failure) {
    throw error_of(device_.rank(), "opening its stages", failure);
  }
  norms_ = device_.allocate(static_cast<Bytes>(sizeof(double)) * pipeline_.updates(), "norms of gradients");
  step_ = device_.allocate(sizeof(std::int64_t), "the number of the step");
  find_gradients();
  find_actions();
  find_buffers();
}

void GpuActions::find_gradients() {
  const RankId rank = device_.rank();
  for (int b = 0; b < pipeline_.blocks(); ++b) {
    const BlockId block(b);
    const auto ranks = ranks_of(pipeline_, block);
    if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) continue;
    blocks_.push_back(block);
    const auto oldest = tensors_.parameters(rank, block, 0);
    const auto newest = tensors_.parameters(rank, block, pipeline_.updates());
    const bool moves = oldest.data() != newest.data() && options_.steps > 1;
    newest_.push_back(moves ? device_.allocate(static_cast<Bytes>(newest.size()), "the newest parameters")
                            : std::span<std::byte>());
    for (int update = 0; update < pipeline_.updates(); ++update) {
      const auto memory = tensors_.gradients(rank, block, update);
      if (memory.empty()) continue;
      taken_.push_back({.gradients = {.block = block, .rank = rank, .update = update},
                        .host = options_.gradients ? device_.allocate_host(static_cast<Bytes>(memory.size()))
                                                   : std::span<std::byte>(),
                        .loss = device_.allocate_host(model_.loss_bytes(pipeline_, block)),
                        .counts = ranks.front() == rank});
    }
  }
}

/// Reserves memory for actions that need some beyond the tensors, and notes what becomes of the gradients.
void GpuActions::find_actions() {
  const RankId rank = device_.rank();
  for (InstructionId id = program_.first(rank); id < program_.last(rank);
       id = InstructionId(id.value() + 1)) {
    for (const Action& action : program_.actions(id)) {
      if (belongs_on(pipeline_, action, rank)) reserve(id, action);
    }
  }
}

void GpuActions::reserve(InstructionId id, const Action& action) {
  if (action.kind == OpKind::offload) {
    const auto [at, added] = host_copies_.try_emplace(cell(action));
    const auto sizes = tensors_.saved_sizes(action);
    for (std::size_t p = 0; added && p < sizes.size(); ++p) at->second[p] = device_.allocate_host(sizes[p]);
  }
  if (action.kind == OpKind::reduce_grad || action.kind == OpKind::optimizer) {
    if (Taken* const taken = find(action.block(), action.update())) {
      (action.kind == OpKind::optimizer ? taken->optimized : taken->gradients.reduced) = true;
    }
  }
  if (!is_collective(action.kind) || is_norm(action) || reserve_parts(action)) return;
  const bool sums = action.kind == OpKind::reduce_grad;
  if (sums && find(action.block(), action.update()) != nullptr) return;
  summed_[id] = device_.allocate(collective_memory(model_, pipeline_, action).bytes, "a collective");
}

void GpuActions::find_buffers() {
  const RankId rank = device_.rank();
  for (InstructionId id = program_.first(rank); id < program_.last(rank);
       id = InstructionId(id.value() + 1)) {
    for (const Action& action : program_.actions(id)) {
      buffers_.emplace_back();
      if (is_communication(action.kind) || local_work(action.kind) != LocalWork::compute) continue;
      try {
        buffers_.back() = compute_buffers(id, action);
      } catch (const BackendError&) {
        // A missing entry is an error of the step that reaches it, if one does.
      }
    }
  }
}

GpuActions::ComputeBuffers GpuActions::compute_buffers(InstructionId id, const Action& action) const {
  ComputeBuffers all{tensors_.buffers(place(id), action), tensors_.copies_of_dx(place(id), action)};
  all.tensors.step = step();
  return all;
}

/// Collectives of one communicator follow each other: one buffer serves all microbatches.
bool GpuActions::reserve_parts(const Action& action) {
  if (action.kind != OpKind::collective || action.microbatch < 0) return false;
  const CollectiveId id = action.collective();
  const Collective& collective = pipeline_.spec().collectives[id];
  if (collective.after.stages.empty()) return false;
  const GatheredParts parts(collective, device_.rank(), model_.statistics_bytes(pipeline_, id),
                            summand_bytes(collective, model_.sizes(pipeline_)));
  if (parts.bytes() == 0) return false;
  const auto [at, added] = gathered_.try_emplace(id, parts);
  if (added) at->second.place(device_.allocate(parts.bytes(), "the parts of a collective"));
  return true;
}

const GatheredParts* GpuActions::parts_of(const Action& action) const {
  if (action.kind != OpKind::collective || action.microbatch < 0) return nullptr;
  const auto at = gathered_.find(action.collective());
  return at == gathered_.end() ? nullptr : &at->second;
}

GpuActions::Taken* GpuActions::find(BlockId block, int update) {
  const auto at = std::find_if(taken_.begin(), taken_.end(), [&](const Taken& t) {
    return t.gradients.block == block && t.gradients.update == update;
  });
  return at == taken_.end() ? nullptr : &*at;
}

bool GpuActions::is_norm(const Action& action) const {
  return action.kind == OpKind::collective && pipeline_.spec().collectives[action.collective()].per_update();
}

void GpuActions::clear_pool(GpuStream stream) const {
  device_.fill(stream, tensors_.pool(device_.rank()), std::byte{0});
  device_.fill(stream, step_, std::byte{0});
}

void GpuActions::begin_step(int step, GpuStream stream, const TensorTable& table) {
  // A graph that was captured once reads it from there.
  device_.check(
      device_.cuda().stream_write_value(stream, address_of(step_.data()), static_cast<CudaValue>(step), 0),
      "the number of the step");
  if (step > 0) {
    keep_newest_parameters(stream);
  } else {
    for (const BlockId block : blocks_) {
      stages_->initialize(stream, block, tensors_.parameters(device_.rank(), block, 0),
                          tensors_.optimizer_state(device_.rank(), block));
    }
    for (const auto& [id, memory] : summed_) device_.fill(stream, memory, std::byte{0});
  }
  for (std::uint32_t t = 0; t < table.tensors.size(); ++t) {
    const Tensor& tensor = table.tensors[t];
    if (tensor.rank != device_.rank() || !tensor.from_start) continue;
    if (tensor.size_class.kind != TensorKind::boundary_input) continue;
    if (is_padding(pipeline_, MicrobatchId(tensor.microbatch))) continue;
    stages_->load(stream, MicrobatchId(tensor.microbatch),
                  batch_buffers(tensors_.memory(t), tensor.size_class.slice, this->step()));
  }
}

/// The last version of a step is the first of the next. Of several blocks one's last may lie where another's
/// first belongs, hence the detour.
void GpuActions::keep_newest_parameters(GpuStream stream) {
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    if (newest_[i].empty()) continue;
    device_.copy(stream, newest_[i], tensors_.parameters(device_.rank(), blocks_[i], pipeline_.updates()));
  }
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    if (newest_[i].empty()) continue;
    device_.copy(stream, tensors_.parameters(device_.rank(), blocks_[i], 0), newest_[i]);
  }
}

void GpuActions::begin_pass(bool takes) {
  takes_ = takes;
  norm_known_.assign(static_cast<std::size_t>(pipeline_.updates()), false);
}

void GpuActions::enqueue(InstructionId id, GpuStream stream) {
  for (const Action& action : program_.actions(id)) run(id, action, stream);
}

void GpuActions::run(InstructionId id, const Action& action, GpuStream stream) {
  if (is_padding(pipeline_, action)) return;  // nobody reads what it would make
  switch (local_work(action.kind)) {
    case LocalWork::compute:
      return compute(id, action, stream);
    case LocalWork::optimize:
      return optimize(action, stream);
    case LocalWork::offload:
      return move(host_copies_.at(cell(action)), tensors_.saved(place(id), action), stream);
    case LocalWork::reload:
      return move(tensors_.saved(place(id), action), host_copies_.at(cell(action)), stream);
    case LocalWork::load:
      return stages_->load(stream, action.mb(),
                           batch_buffers(tensors_.batch(place(id), action), action.slice, step()));
    case LocalWork::none:
      return;
  }
}

void GpuActions::compute(InstructionId id, const Action& action, GpuStream stream) {
  if (gives_weight_gradient(action.kind)) {
    const int update = pipeline_.spec().update[action.mb()];
    for (const BlockId block : pipeline_.blocks_of(action.stage())) {
      if (!tensors_.makes_gradients(place(id), block, update)) continue;
      device_.fill(stream, tensors_.gradients(device_.rank(), block, update), std::byte{0});
    }
  }
  const std::optional<ComputeBuffers>& found = buffers_[number_of(action)];
  const std::optional<ComputeBuffers> late =
      found ? std::nullopt : std::optional(compute_buffers(id, action));
  const ComputeBuffers& own = found ? *found : *late;
  stages_->compute(stream, action, own.tensors);
  for (const std::span<std::byte> copy : own.copies_of_dx) device_.copy(stream, copy, own.tensors.dx);
}

void GpuActions::move(const Payload& to, const Payload& from, GpuStream stream) {
  for (std::size_t p = 0; p < to.size(); ++p) device_.copy(stream, to[p], from[p]);
}

void GpuActions::optimize(const Action& action, GpuStream stream) {
  const RankId rank = device_.rank();
  const auto old = tensors_.parameters(rank, action.block(), action.update());
  const auto updated = tensors_.parameters(rank, action.block(), action.update() + 1);
  const auto gradients = tensors_.gradients(rank, action.block(), action.update());
  const Taken* const taken = find(action.block(), action.update());
  if (taken != nullptr) take_loss(*taken, stream);
  if (takes_ && taken != nullptr) take(*taken, stream);
  if (old.data() != updated.data()) device_.copy(stream, updated, old);
  if (gradients.empty()) return;  // no microbatch feeds the update: the weights stay as they are
  const auto update = static_cast<std::size_t>(action.update());
  const double* const norm =
      norm_known_[update] ? reinterpret_cast<const double*>(norms_.data()) + update : nullptr;
  stages_->update(stream, {.parameters = updated,
                           .gradients = gradients,
                           .optimizer_state = tensors_.optimizer_state(rank, action.block()),
                           .squared_norm = norm,
                           .largest_norm = options_.clip_norm});
}

std::span<std::byte> GpuActions::gradients_of(const Taken& taken) const {
  return tensors_.gradients(device_.rank(), taken.gradients.block, taken.gradients.update);
}

void GpuActions::take(const Taken& taken, GpuStream stream) {
  if (!options_.gradients) return;
  device_.copy(stream, taken.host, gradients_of(taken));
}

void GpuActions::take_loss(const Taken& taken, GpuStream stream) {
  device_.copy(stream, taken.loss, gradients_of(taken).last(taken.loss.size()));
}

std::vector<Transfer> GpuActions::transfers(InstructionId id) const {
  return transfers_of(program_, tensors_, place(id));
}

StreamCollective GpuActions::collective(InstructionId id, GpuStream stream) {
  const Action& action = program_.actions(id).front();
  StreamCollective call{.instruction = id,
                        .communicator = program_.communicators_of(id).front(),
                        .rank = device_.rank(),
                        .payload = summed(id),
                        .stream = stream};
  if (parts_of(action) != nullptr) return gather(call, gathered_.at(action.collective()));
  if (action.kind == OpKind::unshard) unshard(id, action.stage(), stream);
  if (action.kind == OpKind::reduce_grad) {
    // A rank without gradients of the update adds zeros, and what it gets is nobody's.
    if (summed_.contains(id)) device_.fill(stream, call.payload, std::byte{0});
    call.type = model_.gradient_type();
    call.add = [this](GpuStream on, std::span<std::byte> into, std::span<const std::byte> from) {
      stages_->accumulate(on, into, from);
    };
    return call;
  }
  if (is_norm(action)) begin_norm(std::max(action.microbatch, 0), stream);
  call.add = [this](GpuStream on, std::span<std::byte> into, std::span<const std::byte> from) {
    stages_->add_norm(on, reinterpret_cast<double*>(into.data()),
                      reinterpret_cast<const double*>(from.data()));
  };
  return call;
}

StreamCollective GpuActions::gather(StreamCollective call, GatheredParts& parts) const {
  const CollectiveBuffers own = buffers_of(call.instruction, program_.actions(call.instruction).front());
  device_.fill(call.stream, call.payload, std::byte{0});
  copy_part(call.stream, parts.own().statistics, own.part.statistics);
  copy_part(call.stream, parts.own().summand, own.part.summand);
  call.type = ElementType::uint64;
  parts.begin_sum();
  // A part and zeros are the part: the next member's takes its place.
  call.add = [this, &parts](GpuStream on, std::span<std::byte> into, std::span<const std::byte> from) {
    parts.add_next();
    device_.copy(on, parts.added(into), parts.added(from));
  };
  return call;
}

void GpuActions::end_collective(InstructionId id, GpuStream stream) {
  const Action& action = program_.actions(id).front();
  const GatheredParts* const all = parts_of(action);
  if (all == nullptr) return;
  stages_->combine(stream, action.collective(), all->all());
  const CollectiveBuffers own = buffers_of(id, action);
  copy_part(stream, own.part.statistics, all->own().statistics);
  const std::span<const std::byte> sum = all->all().front().summand;
  copy_part(stream, own.result, sum.first(std::min(own.result.size(), sum.size())));
}

/// A member may have no part, and may get nothing.
void GpuActions::copy_part(GpuStream stream, std::span<std::byte> to, std::span<const std::byte> from) const {
  if (!to.empty() && !from.empty()) device_.copy(stream, to, from);
}

CollectiveBuffers GpuActions::buffers_of(InstructionId id, const Action& action) const {
  return tensors_.collective(place(id), action, model_.statistics_bytes(pipeline_, action.collective()));
}

void GpuActions::rehearse_collective(InstructionId id, GpuStream stream) {
  const StreamCollective call = collective(id, stream);
  device_.fill(stream, call.payload, std::byte{0});
  call.add(stream, call.payload, call.payload);
  end_collective(id, stream);
}

std::span<std::byte> GpuActions::summed(InstructionId id) const {
  const Action& action = program_.actions(id).front();
  if (is_norm(action)) return norm(std::max(action.microbatch, 0));
  if (const GatheredParts* const parts = parts_of(action)) return parts->memory();
  const auto at = summed_.find(id);
  return at != summed_.end() ? at->second
                             : tensors_.gradients(device_.rank(), action.block(), action.update());
}

void GpuActions::unshard(InstructionId id, StageId stage, GpuStream stream) {
  const std::span<std::byte> gathered = tensors_.gathered(place(id), stage);
  const auto blocks = pipeline_.blocks_of(stage);
  if (gathered.empty() || blocks.empty()) return;
  device_.copy(stream, gathered, tensors_.parameters(device_.rank(), blocks.front(), pipeline_.updates()));
}

/// The rank's part of the squared norm.
void GpuActions::begin_norm(int update, GpuStream stream) {
  const std::span<std::byte> own = norm(update);
  device_.fill(stream, own, std::byte{0});
  for (const Taken& taken : taken_) {
    if (taken.gradients.update != update || !taken.counts) continue;
    stages_->add_squared_norm(stream, gradients_of(taken), reinterpret_cast<double*>(own.data()));
  }
  norm_known_[static_cast<std::size_t>(update)] = true;
}

bool GpuActions::has_losses_left() const {
  return std::any_of(taken_.begin(), taken_.end(),
                     [](const Taken& taken) { return !taken.optimized && !taken.loss.empty(); });
}

void GpuActions::end_step(GpuStream stream) {
  for (const Taken& taken : taken_) {
    if (!taken.optimized) take_loss(taken, stream);
  }
}

/// Once reduced, all ranks of a block have the same sum.
std::vector<BlockLoss> GpuActions::losses() const {
  std::vector<BlockLoss> result;
  for (const Taken& taken : taken_) {
    const BlockGradients& g = taken.gradients;
    if (taken.loss.empty() || (g.reduced && !taken.counts)) continue;
    result.push_back({g.block, g.update, g.rank, model_.loss(taken.loss)});
  }
  return result;
}

void GpuActions::end_run(GpuStream stream) {
  for (const Taken& taken : taken_) {
    if (!taken.optimized) take(taken, stream);
  }
}

std::vector<BlockGradients> GpuActions::gradients() const {
  std::vector<BlockGradients> result;
  if (!options_.gradients) return result;
  for (const Taken& taken : taken_) {
    BlockGradients one = taken.gradients;
    one.values.assign(taken.host.begin(), taken.host.end());
    result.push_back(std::move(one));
  }
  return result;
}

}  // namespace ppsim::gpu_backend
