#include "action_runner.hpp"

#include <algorithm>

#include "local_work.hpp"
#include "ppsim/core/execution/facts.hpp"
#include "ppsim/core/ir/padding.hpp"
#include "stage_model/gradient_norm.hpp"

namespace ppsim::gpu_backend {
namespace {

constexpr double kNoNorm = -1;
/// A value that shows a use of memory that nothing has written: a NaN in float32, -1 in integers.
constexpr std::byte kPoison{0xFF};

std::tuple<BlockId, int, RankId> key_of(const BlockGradients& g) { return {g.block, g.update, g.rank}; }

/// One pool per rank with a device. Filling it also makes the system provide its pages before the first step.
std::vector<std::span<std::byte>> make_pools(const Devices& devices, const SlotPlan& slots,
                                             std::byte content) {
  std::vector<std::span<std::byte>> pools;
  for (std::size_t r = 0; r < devices.size(); ++r) {
    pools.emplace_back();
    if (devices[r] == nullptr) continue;
    pools.back() = devices[r]->allocate(slots.pool_bytes[RankId(static_cast<std::int32_t>(r))]);
    devices[r]->fill(pools.back(), content);
  }
  return pools;
}

}  // namespace

ActionRunner::ActionRunner(const RunInput& input, const MemoryPlan& memory, Devices devices)
    : program_(input.program),
      pipeline_(input.program.pipeline()),
      model_(input.model),
      options_(input.options),
      memory_(memory),
      devices_(std::move(devices)),
      sizes_(model_.sizes(pipeline_)),
      tensors_(program_, memory_, sizes_,
               make_pools(devices_, memory_.slots, options_.poison ? kPoison : std::byte{0})),
      norms_(devices_.size() * static_cast<std::size_t>(pipeline_.updates()), kNoNorm) {
  find_shares();
  find_actions();
}

void ActionRunner::find_shares() {
  for (int b = 0; b < pipeline_.blocks(); ++b) {
    const BlockId block(b);
    for (const RankId rank : ranks_of(pipeline_, block)) {
      if (!here(rank)) continue;
      shares_.push_back({rank, block});
      for (int update = 0; update < pipeline_.updates(); ++update) {
        if (tensors_.gradients(rank, block, update).empty()) continue;
        gradients_.push_back({{.block = block, .rank = rank, .update = update}});
      }
    }
  }
  std::sort(gradients_.begin(), gradients_.end(),
            [](const Taken& a, const Taken& b) { return key_of(a.gradients) < key_of(b.gradients); });
}

/// Gives every OFFLOAD room in host memory, and notes what becomes of the gradients.
void ActionRunner::find_actions() {
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(program_.size()); ++i) {
    const RankId rank = program_.rank_of(InstructionId(i));
    if (!here(rank)) continue;
    for (const Action& action : program_.actions(InstructionId(i))) {
      if (!belongs_on(pipeline_, action, rank)) continue;
      if (action.kind == OpKind::offload) reserve_host_copy(rank, action);
      if (action.kind != OpKind::reduce_grad && action.kind != OpKind::optimizer) continue;
      Taken* const taken = find_gradients(rank, action.block(), action.update());
      if (taken == nullptr) continue;
      (action.kind == OpKind::optimizer ? taken->optimized : taken->gradients.reduced) = true;
    }
  }
}

void ActionRunner::reserve_host_copy(RankId rank, const Action& offload) {
  const auto [at, added] = host_copies_.try_emplace(cell(offload));
  if (!added) return;
  const auto sizes = tensors_.saved_sizes(offload);
  for (std::size_t p = 0; p < sizes.size(); ++p) at->second[p] = device(rank).allocate_host(sizes[p]);
}

ActionRunner::Taken* ActionRunner::find_gradients(RankId rank, BlockId block, int update) {
  const auto key = std::tuple(block, update, rank);
  const auto at = std::lower_bound(gradients_.begin(), gradients_.end(), key,
                                   [](const Taken& t, const auto& k) { return key_of(t.gradients) < k; });
  return at == gradients_.end() || key_of(at->gradients) != key ? nullptr : &*at;
}

void ActionRunner::begin_step(int step) {
  step_ = step;
  std::fill(norms_.begin(), norms_.end(), kNoNorm);
  if (step > 0) {
    keep_newest_parameters();
  } else {
    for (const auto& [rank, block] : shares_) {
      device(rank).run(Program::kComputeQueue, [&, rank = rank, block = block] {
        model_.initialize(pipeline_, block, tensors_.parameters(rank, block, 0),
                          tensors_.optimizer_state(rank, block));
      });
    }
  }
  for (std::uint32_t t = 0; t < memory_.table.tensors.size(); ++t) {
    const Tensor& tensor = memory_.table.tensors[t];
    if (!here(tensor.rank) || !tensor.from_start || tensor.size_class.kind != TensorKind::boundary_input)
      continue;
    if (is_padding(pipeline_, MicrobatchId(tensor.microbatch))) continue;
    device(tensor.rank).run(Program::kCopyQueue, [&] {
      model_.load(pipeline_, MicrobatchId(tensor.microbatch),
                  batch_buffers(tensors_.memory(t), tensor.size_class.slice, &step_));
    });
  }
}

/// The last version of a step is the first of the next. Of several blocks one's last may lie where another's
/// first belongs, hence the detour.
void ActionRunner::keep_newest_parameters() {
  std::vector<std::vector<std::byte>> newest;
  for (const auto& [rank, block] : shares_) {
    const auto memory = tensors_.parameters(rank, block, pipeline_.updates());
    newest.emplace_back(memory.size());
    device(rank).copy(newest.back(), memory);
  }
  for (std::size_t i = 0; i < shares_.size(); ++i) {
    device(shares_[i].rank).copy(tensors_.parameters(shares_[i].rank, shares_[i].block, 0), newest[i]);
  }
}

void ActionRunner::run(ActionPlace place) {
  for (const Action& action : program_.actions(place.instruction)) run_action(place, action);
}

void ActionRunner::run_action(ActionPlace place, const Action& action) {
  if (is_padding(pipeline_, action)) return;  // nobody reads what it would make
  switch (local_work(action.kind)) {
    case LocalWork::compute:
      return compute(place, action);
    case LocalWork::optimize:
      return optimize(place, action);
    case LocalWork::offload:
      return move(place.rank, host_copies_.at(cell(action)), tensors_.saved(place, action));
    case LocalWork::reload:
      return move(place.rank, tensors_.saved(place, action), host_copies_.at(cell(action)));
    case LocalWork::load:
      return device(place.rank).run(Program::kCopyQueue, [&] {
        model_.load(pipeline_, action.mb(),
                    batch_buffers(tensors_.batch(place, action), action.slice, &step_));
      });
    case LocalWork::none:
      return;
  }
}

void ActionRunner::compute(ActionPlace place, const Action& action) {
  if (gives_weight_gradient(action.kind)) clear_gradients(place, action);
  ActionBuffers buffers = tensors_.buffers(place, action);
  buffers.step = &step_;
  device(place.rank).run(Program::kComputeQueue, [&] { model_.compute(pipeline_, action, buffers); });
  for (const std::span<std::byte> copy : tensors_.copies_of_dx(place, action))
    device(place.rank).copy(copy, buffers.dx);
}

void ActionRunner::clear_gradients(ActionPlace place, const Action& action) {
  const int update = pipeline_.spec().update[action.mb()];
  for (const BlockId block : pipeline_.blocks_of(action.stage())) {
    if (!tensors_.makes_gradients(place, block, update)) continue;
    device(place.rank).fill(tensors_.gradients(place.rank, block, update), std::byte{0});
  }
}

void ActionRunner::move(RankId rank, const Payload& to, const Payload& from) {
  for (std::size_t p = 0; p < to.size(); ++p) device(rank).copy(to[p], from[p]);
}

void ActionRunner::unshard(ActionPlace place, StageId stage) {
  const std::span<std::byte> gathered = tensors_.gathered(place, stage);
  const auto blocks = pipeline_.blocks_of(stage);
  if (gathered.empty() || blocks.empty()) return;
  device(place.rank).copy(gathered, tensors_.parameters(place.rank, blocks.front(), pipeline_.updates()));
}

void ActionRunner::optimize(ActionPlace place, const Action& action) {
  const auto old = tensors_.parameters(place.rank, action.block(), action.update());
  const auto updated = tensors_.parameters(place.rank, action.block(), action.update() + 1);
  const auto gradients = tensors_.gradients(place.rank, action.block(), action.update());
  if (Taken* const taken = find_gradients(place.rank, action.block(), action.update())) take(*taken);
  if (old.data() != updated.data()) device(place.rank).copy(updated, old);
  if (gradients.empty()) return;  // no microbatch feeds the update: the weights stay as they are
  const double norm = squared_norm(place.rank, action.update());
  const double scale = norm == kNoNorm ? 1.0 : clip_scale(norm, options_.clip_norm);
  device(place.rank).run(Program::kComputeQueue, [&] {
    model_.update(updated, gradients, tensors_.optimizer_state(place.rank, action.block()), scale);
  });
}

double& ActionRunner::squared_norm(RankId rank, int update) {
  return norms_[rank.index() * static_cast<std::size_t>(pipeline_.updates()) +
                static_cast<std::size_t>(update)];
}

void ActionRunner::take(Taken& taken) {
  BlockGradients& g = taken.gradients;
  const auto memory = tensors_.gradients(g.rank, g.block, g.update);
  const auto loss = memory.last(static_cast<std::size_t>(model_.loss_bytes(pipeline_, g.block)));
  if (!loss.empty()) device(g.rank).run(Program::kComputeQueue, [&] { taken.loss = model_.loss(loss); });
  if (step_ + 1 < options_.steps) return;
  g.values.resize(memory.size());
  device(g.rank).copy(g.values, memory);
}

std::vector<Transfer> ActionRunner::transfers(ActionPlace place) {
  std::vector<Transfer> ends = transfer_ends(program_, place);
  const auto actions = program_.actions(place.instruction);
  for (Transfer& end : ends) end.payload = tensors_.payload(place, actions[end.member]);
  return ends;
}

CollectiveCall ActionRunner::collective(ActionPlace place) {
  const Action& action = program_.actions(place.instruction).front();
  CollectiveCall call = collective_end(program_, place);
  if (action.kind == OpKind::unshard) unshard(place, action.stage());
  if (action.kind == OpKind::reduce_grad) {
    call.reduction = Reduction::gradients;
    call.summand = call.result = tensors_.gradients(place.rank, action.block(), action.update());
  }
  if (action.kind != OpKind::collective) return call;
  const Collective& collective = pipeline_.spec().collectives[action.collective()];
  if (collective.per_update()) {
    call.reduction = Reduction::norm;
    call.summand = call.result = own_norm(place, action);
  } else if (collective.per_microbatch() && action.microbatch >= 0) {
    add_part(place, action, call);
  }
  return call;
}

void ActionRunner::add_part(ActionPlace place, const Action& action, CollectiveCall& call) const {
  const CollectiveBuffers own =
      tensors_.collective(place, action, model_.statistics_bytes(pipeline_, action.collective()));
  call.reduction = Reduction::combined;
  call.statistics = own.part.statistics;
  call.summand = own.part.summand;
  call.result = own.result;
  call.receiver = own.receiver;
}

/// The rank's part of the squared norm: a block that several ranks hold counts on the lowest of them.
std::span<std::byte> ActionRunner::own_norm(ActionPlace place, const Action& action) {
  const int update = std::max(action.microbatch, 0);
  double& norm = squared_norm(place.rank, update);
  norm = 0;
  device(place.rank).run(Program::kComputeQueue, [&] {
    for (const auto& [rank, block] : shares_) {
      if (rank != place.rank || find_gradients(rank, block, update) == nullptr) continue;
      if (ranks_of(pipeline_, block).front() != rank) continue;
      norm += model_.squared_norm(tensors_.gradients(rank, block, update));
    }
  });
  return std::as_writable_bytes(std::span(&norm, 1));
}

void ActionRunner::freed(std::uint32_t tensor) {
  if (!options_.poison) return;
  device(memory_.table.tensors[tensor].rank).fill(tensors_.memory(tensor), kPoison);
}

double ActionRunner::end_step() {
  double loss = 0;
  for (Taken& taken : gradients_) {
    if (!taken.optimized) take(taken);
    // Once reduced, all ranks of a block have the same sum.
    const BlockGradients& g = taken.gradients;
    if (!g.reduced || ranks_of(pipeline_, g.block).front() == g.rank) loss += taken.loss;
  }
  return loss;
}

std::vector<BlockGradients> ActionRunner::gradients() const {
  std::vector<BlockGradients> result;
  for (const Taken& taken : gradients_) result.push_back(taken.gradients);
  return result;
}

}  // namespace ppsim::gpu_backend
