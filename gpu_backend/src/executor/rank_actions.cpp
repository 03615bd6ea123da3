#include "rank_actions.hpp"

#include <algorithm>
#include <numeric>

#include "ppsim/core/execution/facts.hpp"
#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/ir/padding.hpp"
#include "ppsim/gpu_backend/executor/backend_error.hpp"
#include "stage_model/gradient_norm.hpp"
#include "worker.hpp"

namespace ppsim::gpu_backend {

RankActions::RankActions(const ActionInput& input, Device& device, Stages& stages)
    : program_(input.program),
      pipeline_(input.program.pipeline()),
      model_(input.model),
      options_(input.options),
      tensors_(input.tensors),
      device_(device),
      stages_(stages),
      rank_(device.rank()) {
  norms_ = device_.allocate(static_cast<Bytes>(sizeof(double)) * pipeline_.updates(), "norms of gradients");
  step_ = device_.allocate(sizeof(std::int64_t), "the number of the step");
  find_gradients();
  find_actions();
}

void RankActions::find_gradients() {
  for (const BlockId block : pipeline_.block_ids()) {
    const auto ranks = ranks_of(pipeline_, block);
    if (std::ranges::find(ranks, rank_) == ranks.end()) continue;
    blocks_.push_back(block);
    const auto oldest = tensors_.parameters(rank_, block, 0);
    const auto newest = tensors_.parameters(rank_, block, pipeline_.updates());
    const bool moves = oldest.data() != newest.data() && options_.steps > 1;
    newest_.push_back(moves ? device_.allocate(static_cast<Bytes>(newest.size()), "the newest parameters")
                            : std::span<std::byte>());
    for (int update = 0; update < pipeline_.updates(); ++update) {
      const auto memory = tensors_.gradients(rank_, block, update);
      if (memory.empty()) continue;
      outputs_.push_back({.gradients = {.block = block, .rank = rank_, .update = update},
                          .host = options_.gradients
                                      ? device_.allocate_host(static_cast<Bytes>(memory.size()))
                                      : std::span<std::byte>(),
                          .loss = device_.allocate_host(model_.loss_bytes(pipeline_, block)),
                          .counts = ranks.front() == rank_});
    }
  }
}

/// Gives every OFFLOAD room in host memory, notes what becomes of the gradients, and finds the tensors of
/// what computes.
void RankActions::find_actions() {
  for (const InstructionId id : program_.ids_of(rank_)) {
    for (const Action& action : program_.actions(id)) {
      if (belongs_on(pipeline_, action, rank_)) reserve(action);
      buffers_.push_back(find_buffers(id, action));
    }
  }
}

void RankActions::reserve(const Action& action) {
  if (action.kind == OpKind::offload) {
    const auto [at, added] = host_copies_.try_emplace(pass_key(action));
    const auto sizes = tensors_.saved_sizes(action);
    for (std::size_t p = 0; added && p < sizes.size(); ++p) at->second[p] = device_.allocate_host(sizes[p]);
  }
  if (action.kind != OpKind::reduce_grad && action.kind != OpKind::optimizer) return;
  GradientOutput* const output = find(action.block(), pipeline_.update_of(action));
  if (output == nullptr) return;
  (action.kind == OpKind::optimizer ? output->optimized : output->gradients.reduced) = true;
}

std::optional<RankActions::ComputeBuffers> RankActions::find_buffers(InstructionId id,
                                                                     const Action& action) const {
  if (!computes_stage(action.kind)) return std::nullopt;
  try {
    return compute_buffers(id, action);
  } catch (const BackendError&) {
    return std::nullopt;  // a missing entry is an error of the step that reaches it, if one does
  }
}

RankActions::ComputeBuffers RankActions::compute_buffers(InstructionId id, const Action& action) const {
  ComputeBuffers all{tensors_.buffers(place(id), action), tensors_.copies_of_dx(place(id), action)};
  all.tensors.step = step();
  return all;
}

RankActions::GradientOutput* RankActions::find(BlockId block, int update) {
  const auto at = std::ranges::find_if(outputs_, [&](const GradientOutput& t) {
    return t.gradients.block == block && t.gradients.update == update;
  });
  return at == outputs_.end() ? nullptr : &*at;
}

bool RankActions::is_norm(const Action& action) const {
  return action.kind == OpKind::collective && pipeline_.spec().collectives[action.collective()].per_update();
}

void RankActions::clear(GpuStream stream) const {
  device_.fill(stream, tensors_.pool(rank_), std::byte{0});
  device_.fill(stream, step_, std::byte{0});
}

void RankActions::begin_step(int step, GpuStream stream, const TensorTable& table) {
  device_.write(stream, step_, step);  // a graph that was captured once reads it from there
  if (step > 0) {
    keep_newest_parameters(stream);
  } else {
    for (const BlockId block : blocks_) {
      stages_.initialize(stream, block, tensors_.parameters(rank_, block, 0),
                         tensors_.optimizer_state(rank_, block));
    }
  }
  for (std::uint32_t t = 0; t < table.tensors.size(); ++t) {
    const Tensor& tensor = table.tensors[t];
    if (tensor.rank != rank_ || !tensor.from_start) continue;
    if (tensor.size_class.kind != TensorKind::boundary_input) continue;
    if (is_padding(pipeline_, MicrobatchId(tensor.microbatch))) continue;
    stages_.load(stream, MicrobatchId(tensor.microbatch),
                 batch_buffers(tensors_.memory(t), tensor.size_class.slice, this->step()));
  }
}

/// The last version of a step is the first of the next. Of several blocks one's last may lie where another's
/// first belongs, hence the detour.
void RankActions::keep_newest_parameters(GpuStream stream) {
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    if (newest_[i].empty()) continue;
    device_.copy(stream, newest_[i], tensors_.parameters(rank_, blocks_[i], pipeline_.updates()));
  }
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    if (newest_[i].empty()) continue;
    device_.copy(stream, tensors_.parameters(rank_, blocks_[i], 0), newest_[i]);
  }
}

void RankActions::begin_pass(bool takes) {
  takes_ = takes;
  norm_known_.assign(as_size(pipeline_.updates()), 0);
}

void RankActions::run(InstructionId id, GpuStream stream) {
  for (const Action& action : program_.actions(id)) run(id, action, stream);
}

void RankActions::run(InstructionId id, const Action& action, GpuStream stream) {
  if (is_padding(pipeline_, action)) return;  // nobody reads what it would make
  if (computes_stage(action.kind)) return compute(id, action, stream);
  if (action.kind == OpKind::optimizer) return optimize(action, stream);
  if (action.kind == OpKind::reshard) return;  // the lifetime of a tensor is all that changes
  if (action.kind == OpKind::load)
    return stages_.load(stream, action.mb(),
                        batch_buffers(tensors_.batch(place(id), action), action.slice, step()));
  if (action.kind == OpKind::offload)
    return move(host_copies_.at(pass_key(action)), tensors_.saved(place(id), action), stream);
  PPSIM_CHECK(action.kind == OpKind::reload, "not an action of a compute or copy queue");
  move(tensors_.saved(place(id), action), host_copies_.at(pass_key(action)), stream);
}

void RankActions::compute(InstructionId id, const Action& action, GpuStream stream) {
  if (gives_weight_gradient(action.kind)) clear_gradients(id, action, stream);
  const std::optional<ComputeBuffers>& found = buffers_[number_of(action)];
  const std::optional<ComputeBuffers> late =
      found ? std::nullopt : std::optional(compute_buffers(id, action));
  const ComputeBuffers& own = found ? *found : *late;
  stages_.compute(stream, action, own.tensors);
  for (const std::span<std::byte> copy : own.copies_of_dx) device_.copy(stream, copy, own.tensors.dx);
}

void RankActions::clear_gradients(InstructionId id, const Action& action, GpuStream stream) {
  for (const BlockId block : pipeline_.blocks_of(action.stage())) {
    if (!tensors_.makes_summand(place(id), block, action.mb())) continue;
    device_.fill(stream, tensors_.summand(rank_, block, action.mb()), std::byte{0});
  }
}

void RankActions::move(const Payload& to, const Payload& from, GpuStream stream) {
  for (std::size_t p = 0; p < to.size(); ++p) device_.copy(stream, to[p], from[p]);
}

void RankActions::optimize(const Action& action, GpuStream stream) {
  const auto old = tensors_.parameters(rank_, action.block(), action.update());
  const auto updated = tensors_.parameters(rank_, action.block(), action.update() + 1);
  const auto gradients = tensors_.gradients(rank_, action.block(), action.update());
  const GradientOutput* const output = find(action.block(), action.update());
  if (output != nullptr) copy_out_loss(*output, stream);
  if (takes_ && output != nullptr) copy_out(*output, stream);
  if (old.data() != updated.data()) device_.copy(stream, updated, old);
  if (gradients.empty()) return;  // no microbatch feeds the update: the weights stay as they are
  const bool clips = norm_known_[as_size(action.update())] != 0;
  const auto* const squared_norm = reinterpret_cast<const double*>(norm(action.update()).data());
  stages_.update(stream, {.block = action.block(),
                          .parameters = updated,
                          .gradients = gradients,
                          .optimizer_state = tensors_.optimizer_state(rank_, action.block()),
                          .squared_norm = clips ? squared_norm : nullptr,
                          .largest_norm = options_.clip_norm});
}

std::span<std::byte> RankActions::memory_of(const GradientOutput& output) const {
  return tensors_.gradients(rank_, output.gradients.block, output.gradients.update);
}

void RankActions::copy_out(const GradientOutput& output, GpuStream stream) {
  if (options_.gradients) device_.copy(stream, output.host, memory_of(output));
}

void RankActions::copy_out_loss(const GradientOutput& output, GpuStream stream) {
  device_.copy(stream, output.loss, memory_of(output).last(output.loss.size()));
}

std::vector<Transfer> RankActions::transfers(InstructionId id) const {
  std::vector<Transfer> result = transfer_ends(program_, place(id));
  const auto actions = program_.actions(id);
  for (std::size_t i = 0; i < actions.size(); ++i) result[i].payload = payload(id, actions[i]);
  return result;
}

Payload RankActions::payload(InstructionId id, const Action& action) const {
  const Payload whole = tensors_.payload(place(id), action);
  if (!names_peer_rank(action.kind) || !whole[1].empty()) return whole;
  const auto first = as_size(tensors_.saved_sizes(action)[0]);
  if (first > whole[0].size()) return whole;  // the sizes do not fit, which the transport reports
  return {whole[0].first(first), whole[0].subspan(first)};
}

CollectiveCall RankActions::collective(InstructionId id, GpuStream stream) {
  const Action& action = program_.actions(id).front();
  CollectiveCall call = collective_end(program_, place(id));
  if (action.kind == OpKind::unshard) unshard(id, action.stage(), stream);
  if (action.kind == OpKind::reduce_grad) reduce(id, action, stream, call);
  if (action.kind != OpKind::collective) return call;
  if (is_norm(action)) {
    const int update = std::max(action.microbatch, 0);
    begin_norm(update, stream);
    call.reduction = Reduction::norm;
    call.summand = call.result = norm(update);
  } else if (pipeline_.spec().collectives[action.collective()].per_microbatch() && action.microbatch >= 0) {
    add_part(id, action, call);
  }
  return call;
}

void RankActions::reduce(InstructionId id, const Action& action, GpuStream stream, CollectiveCall& call) {
  call.reduction = Reduction::gradients;
  if (pipeline_.counts_updates(action.kind, action.subject)) {
    call.summand = call.result = tensors_.gradients(rank_, action.block(), action.update());
    return;
  }
  const int update = pipeline_.update_of(action);
  call.summand = call.result = tensors_.summand(rank_, action.block(), action.mb());
  call.total = tensors_.gradients(rank_, action.block(), update);
  if (tensors_.makes_gradients(place(id), action.block(), update))
    device_.fill(stream, call.total, std::byte{0});
}

void RankActions::add_part(InstructionId id, const Action& action, CollectiveCall& call) const {
  const CollectiveBuffers own =
      tensors_.collective(place(id), action, model_.statistics_bytes(pipeline_, action.collective()));
  call.reduction = Reduction::combined;
  call.statistics = own.part.statistics;
  call.summand = own.part.summand;
  call.result = own.result;
  call.receiver = own.receiver;
}

void RankActions::unshard(InstructionId id, StageId stage, GpuStream stream) {
  const std::span<std::byte> gathered = tensors_.gathered(place(id), stage);
  const auto blocks = pipeline_.blocks_of(stage);
  if (gathered.empty() || blocks.empty()) return;
  device_.copy(stream, gathered, tensors_.parameters(rank_, blocks.front(), pipeline_.updates()));
}

/// The rank's part of the squared norm.
void RankActions::begin_norm(int update, GpuStream stream) {
  const std::span<std::byte> own = norm(update);
  device_.fill(stream, own, std::byte{0});
  for (const GradientOutput& output : outputs_) {
    if (output.gradients.update != update || !output.counts) continue;
    stages_.add_squared_norm(stream, memory_of(output), reinterpret_cast<double*>(own.data()));
  }
  norm_known_[as_size(update)] = 1;
}

bool RankActions::has_losses_left() const {
  return std::ranges::any_of(
      outputs_, [](const GradientOutput& output) { return !output.optimized && !output.loss.empty(); });
}

void RankActions::end_step(GpuStream stream) {
  for (const GradientOutput& output : outputs_) {
    if (!output.optimized) copy_out_loss(output, stream);
  }
}

void RankActions::end_run(GpuStream stream) {
  for (const GradientOutput& output : outputs_) {
    if (!output.optimized) copy_out(output, stream);
  }
}

/// Once reduced, all ranks of a block have the same sum.
std::vector<BlockLoss> RankActions::losses() const {
  std::vector<BlockLoss> result;
  for (const GradientOutput& output : outputs_) {
    const BlockGradients& g = output.gradients;
    if (output.loss.empty() || (g.reduced && !output.counts)) continue;
    result.push_back({g.block, g.update, g.rank, model_.loss(output.loss)});
  }
  return result;
}

std::vector<BlockGradients> RankActions::gradients() const {
  std::vector<BlockGradients> result;
  if (!options_.gradients) return result;
  for (const GradientOutput& output : outputs_) {
    BlockGradients one = output.gradients;
    one.values.assign(output.host.begin(), output.host.end());
    result.push_back(std::move(one));
  }
  return result;
}

namespace {

template <class PerBlock>
std::vector<PerBlock> in_order(const std::deque<RankActions>& ranks,
                               std::vector<PerBlock> (RankActions::*of)() const) {
  std::vector<PerBlock> all;
  for (const RankActions& rank : ranks) {
    for (PerBlock& one : (rank.*of)()) all.push_back(std::move(one));
  }
  std::ranges::sort(all, [](const PerBlock& a, const PerBlock& b) {
    return std::tuple(a.block, a.update, a.rank) < std::tuple(b.block, b.update, b.rank);
  });
  return all;
}

}  // namespace

double sum_of_losses(const std::deque<RankActions>& ranks) {
  const std::vector<BlockLoss> losses = in_order(ranks, &RankActions::losses);
  return std::accumulate(losses.begin(), losses.end(), 0.0,
                         [](double sum, const BlockLoss& one) { return sum + one.loss; });
}

std::vector<BlockGradients> all_gradients(const std::deque<RankActions>& ranks) {
  return in_order(ranks, &RankActions::gradients);
}

}  // namespace ppsim::gpu_backend
