#include "gpu_collectives.hpp"

#include <algorithm>

#include "ppsim/core/execution/facts.hpp"

namespace ppsim::gpu_backend {

GpuCollectives::GpuCollectives(const ActionInput& input, const GpuStageModel& model, const GpuRank& rank)
    : program_(input.program), tensors_(input.tensors), model_(model), rank_(rank) {
  const RankId own = rank_.device.rank();
  for (const InstructionId id : program_.ids_of(own)) {
    for (const Action& action : program_.actions(id)) {
      if (is_collective(action.kind) && belongs_on(program_.pipeline(), action, own)) reserve(id, action);
    }
  }
}

void GpuCollectives::reserve(InstructionId id, const Action& action) {
  if (rank_.actions.is_norm(action) || reserve_parts(action)) return;
  if (action.kind == OpKind::reduce_grad && !gradients(action).empty()) return;
  const Bytes bytes = collective_memory(model_, program_.pipeline(), action).bytes;
  summed_[id] = rank_.device.allocate(bytes, "a collective");
}

/// Collectives of one communicator follow each other: one buffer serves all microbatches.
bool GpuCollectives::reserve_parts(const Action& action) {
  if (action.kind != OpKind::collective || action.microbatch < 0) return false;
  const CollectiveId id = action.collective();
  const Pipeline& pipeline = program_.pipeline();
  const Collective& collective = pipeline.spec().collectives[id];
  if (collective.after.stages.empty()) return false;
  const GatheredParts parts(collective, rank_.device.rank(), model_.statistics_bytes(pipeline, id),
                            summand_bytes(collective, model_.sizes(pipeline)));
  if (parts.bytes() == 0) return false;
  const auto [at, added] = gathered_.try_emplace(id, parts);
  if (added) at->second.place(rank_.device.allocate(parts.bytes(), "the parts of a collective"));
  return true;
}

const GatheredParts* GpuCollectives::parts_of(const Action& action) const {
  if (action.kind != OpKind::collective || action.microbatch < 0) return nullptr;
  const auto at = gathered_.find(action.collective());
  return at == gathered_.end() ? nullptr : &at->second;
}

/// The gradients that a REDUCE_GRAD sums.
std::span<std::byte> GpuCollectives::gradients(const Action& action) const {
  const RankId own = rank_.device.rank();
  if (program_.pipeline().counts_updates(action.kind, action.subject))
    return tensors_.gradients(own, action.block(), action.update());
  return tensors_.summand(own, action.block(), action.mb());
}

/// Adds the sum of a microbatch to those before.
void GpuCollectives::add_to_total(const Action& action, GpuStream stream) const {
  const Pipeline& pipeline = program_.pipeline();
  if (action.kind != OpKind::reduce_grad || pipeline.counts_updates(action.kind, action.subject)) return;
  const std::span<std::byte> sum = gradients(action);
  const auto total = tensors_.gradients(rank_.device.rank(), action.block(), pipeline.update_of(action));
  if (!sum.empty() && !total.empty()) rank_.stages.accumulate(stream, total, sum);
}

void GpuCollectives::begin_run(GpuStream stream) const {
  for (const auto& [id, memory] : summed_) rank_.device.fill(stream, memory, std::byte{0});
}

StreamCollective GpuCollectives::begin(InstructionId id, GpuStream stream) {
  const Action& action = program_.actions(id).front();
  const CollectiveCall own = rank_.actions.collective(id, stream);
  StreamCollective call{.instruction = id,
                        .communicator = own.communicator,
                        .rank = own.rank,
                        .payload = summed(id),
                        .stream = stream};
  if (parts_of(action) != nullptr) return gather(call, own, gathered_.at(action.collective()));
  if (own.reduction == Reduction::gradients) {
    // A rank without gradients of the update adds zeros, and nobody reads its sum.
    if (own.summand.empty()) rank_.device.fill(stream, call.payload, std::byte{0});
    call.type = model_.gradient_type();
    call.add = [this](GpuStream on, std::span<std::byte> into, std::span<const std::byte> from) {
      rank_.stages.accumulate(on, into, from);
    };
    return call;
  }
  call.add = [this](GpuStream on, std::span<std::byte> into, std::span<const std::byte> from) {
    rank_.stages.add_norm(on, reinterpret_cast<double*>(into.data()),
                          reinterpret_cast<const double*>(from.data()));
  };
  return call;
}

StreamCollective GpuCollectives::gather(StreamCollective call, const CollectiveCall& own,
                                        GatheredParts& parts) const {
  rank_.device.fill(call.stream, call.payload, std::byte{0});
  copy_part(call.stream, parts.own().statistics, own.statistics);
  copy_part(call.stream, parts.own().summand, own.summand);
  call.type = ElementType::uint64;
  parts.begin_sum();
  // Adding zeros to a part leaves the part, so the next member's part is copied.
  call.add = [this, &parts](GpuStream on, std::span<std::byte> into, std::span<const std::byte> from) {
    parts.add_next();
    rank_.device.copy(on, parts.added(into), parts.added(from));
  };
  return call;
}

void GpuCollectives::end(InstructionId id, GpuStream stream) {
  const Action& action = program_.actions(id).front();
  add_to_total(action, stream);
  const GatheredParts* const all = parts_of(action);
  if (all == nullptr) return;
  rank_.stages.combine(stream, action.collective(), all->all());
  const Bytes statistics = model_.statistics_bytes(program_.pipeline(), action.collective());
  const CollectiveBuffers own = tensors_.collective({rank_.device.rank(), id}, action, statistics);
  copy_part(stream, own.part.statistics, all->own().statistics);
  const std::span<const std::byte> sum = all->all().front().summand;
  copy_part(stream, own.result, sum.first(std::min(own.result.size(), sum.size())));
}

/// A member may have no part, and may get nothing.
void GpuCollectives::copy_part(GpuStream stream, std::span<std::byte> to,
                               std::span<const std::byte> from) const {
  if (!to.empty() && !from.empty()) rank_.device.copy(stream, to, from);
}

void GpuCollectives::warm_up(InstructionId id, GpuStream stream) {
  const StreamCollective call = begin(id, stream);
  rank_.device.fill(stream, call.payload, std::byte{0});
  call.add(stream, call.payload, call.payload);
  end(id, stream);
}

std::span<std::byte> GpuCollectives::summed(InstructionId id) const {
  const Action& action = program_.actions(id).front();
  if (rank_.actions.is_norm(action)) return rank_.actions.norm(std::max(action.microbatch, 0));
  if (const GatheredParts* const parts = parts_of(action)) return parts->memory();
  const auto at = summed_.find(id);
  return at != summed_.end() ? at->second : gradients(action);
}

}  // namespace ppsim::gpu_backend
