#include "tensor_map.hpp"

#include <algorithm>
#include <limits>

#include "ppsim/core/io/text.hpp"
#include "ppsim/core/ir/concatenated.hpp"
#include "ppsim/gpu_backend/executor/backend_error.hpp"

namespace ppsim::gpu_backend {
namespace {

constexpr std::int32_t kEnd = std::numeric_limits<std::int32_t>::max();

SizeClass of_stage(TensorKind kind, const Action& a) {
  return {.kind = kind, .subject = a.subject, .slice = a.slice};
}
SizeClass of_edge(TensorKind kind, const Action& a, StageEdge ends) {
  return {.kind = kind, .subject = ends.from.value(), .peer = ends.to.value(), .slice = a.slice};
}
bool is_one_of(StageId stage, std::span<const StageId> stages) {
  return std::ranges::find(stages, stage) != stages.end();
}
/// Of no stage there are none.
std::span<const StageId> consumers_of(const Pipeline& pipeline, StageId stage, MicrobatchId mb) {
  return stage.valid() ? pipeline.consumers(stage, mb) : std::span<const StageId>{};
}
std::span<const StageId> producers_of(const Pipeline& pipeline, StageId stage, MicrobatchId mb) {
  return stage.valid() ? pipeline.producers(stage, mb) : std::span<const StageId>{};
}
SizeClass of_block(TensorKind kind, BlockId block) { return {.kind = kind, .subject = block.value()}; }

}  // namespace

TensorMap::TensorMap(const Program& program, const MemoryPlan& plan, const SizeTable& sizes,
                     std::vector<std::span<std::byte>> pools)
    : program_(program), pipeline_(program.pipeline()), plan_(plan), sizes_(sizes), pools_(std::move(pools)) {
  const TensorTable& table = plan.table;
  for (std::uint32_t t = 0; t < table.tensors.size(); ++t) {
    const Tensor& tensor = table.tensors[t];
    const std::int32_t since = tensor.from_start ? -1 : table.writers_of(tensor).front().value();
    entries_.push_back({tensor.rank, tensor.size_class, tensor.microbatch, since, t});
  }
  std::ranges::sort(entries_);
}

std::span<std::byte> TensorMap::memory(std::uint32_t tensor) const {
  return pools_[plan_.table.tensors[tensor].rank.index()].subspan(as_size(plan_.slots.offset[tensor]),
                                                                  as_size(plan_.sizes[tensor]));
}

const TensorMap::Entry* TensorMap::newest_until(const Entry& limit) const {
  const auto above = std::ranges::upper_bound(entries_, limit);
  if (above == entries_.begin()) return nullptr;
  const Entry& entry = *std::prev(above);
  return entry.rank == limit.rank && entry.size_class == limit.size_class ? &entry : nullptr;
}

const TensorMap::Entry* TensorMap::oldest_after(const Entry& limit) const {
  const auto above = std::ranges::upper_bound(entries_, limit);
  if (above == entries_.end()) return nullptr;
  return above->rank == limit.rank && above->size_class == limit.size_class ? &*above : nullptr;
}

std::optional<std::uint32_t> TensorMap::find(ActionPlace place, const SizeClass& key, std::int32_t mb) const {
  const Entry limit{place.rank, key, mb, place.instruction.value(), ~std::uint32_t{0}};
  for (const Entry* entry : {newest_until(limit), oldest_after(limit)}) {
    if (entry != nullptr && entry->microbatch == mb) return entry->tensor;
  }
  return std::nullopt;
}

std::span<std::byte> TensorMap::any(ActionPlace place, const SizeClass& key, std::int32_t mb) const {
  const auto tensor = find(place, key, mb);
  return tensor ? memory(*tensor) : std::span<std::byte>{};
}

std::span<std::byte> TensorMap::need(ActionPlace place, const Action& action, const SizeClass& key) const {
  const auto tensor = find(place, key, action.microbatch);
  if (tensor) return memory(*tensor);
  if (sizes_(key) == 0) return {};
  throw BackendError(ErrorCode::ill_formed,
                     concatenated("rank ", place.rank, ": ", action_text(pipeline_, action),
                                  " needs a tensor that no action before it makes: ", key));
}

ActionBuffers batch_buffers(std::span<std::byte> x, std::int32_t slice, const std::int64_t* step) {
  ActionBuffers buffers;
  buffers.x = x;
  buffers.slice = std::max(slice, 0);
  buffers.step = step;
  return buffers;
}

ActionBuffers TensorMap::buffers(ActionPlace place, const Action& action) const {
  ActionBuffers out;
  block_buffers(place, action, out);
  activation_buffers(place, action, out);
  if (pipeline_.slices() > 1) slice_buffers(place, action, out);
  input_gradients(place, action, out);
  if (gives_input_gradient(action.kind) || gives_weight_gradient(action.kind)) {
    gradient_buffers(place, action, out);
  }
  out.workspace = any(
      place,
      {.kind = TensorKind::workspace, .subject = action.subject, .slice = action.slice, .op = action.kind},
      action.microbatch);
  return out;
}

void TensorMap::block_buffers(ActionPlace place, const Action& action, ActionBuffers& out) const {
  const auto blocks = pipeline_.blocks_of(action.stage());
  if (blocks.empty()) return;
  out.parameters = gathered(place, action.stage());
  if (out.parameters.empty()) {
    out.parameters = parameters(place.rank, blocks.front(), pipeline_.version(action.stage(), action.mb()));
  }
  if (gives_weight_gradient(action.kind)) {
    out.gradients = summand(place.rank, blocks.front(), action.mb());
  }
  if (blocks.size() < 2) return;
  out.shared_parameters =
      parameters(place.rank, blocks.back(), pipeline_.version(action.stage(), action.mb()));
  if (gives_weight_gradient(action.kind))
    out.shared_gradients = summand(place.rank, blocks.back(), action.mb());
}

void TensorMap::activation_buffers(ActionPlace place, const Action& action, ActionBuffers& out) const {
  inputs(place, action, out);
  side_buffers(place, action, out);
  if (action.kind == OpKind::forward && !pipeline_.consumers(action.stage(), action.mb()).empty()) {
    out.y = need(place, action, of_stage(TensorKind::boundary_output, action));
  }
  if (action.kind == OpKind::forward && made_again(place, action)) return;
  if (action.kind != OpKind::backward_weight) {
    out.saved_for_input = any(place, of_stage(TensorKind::saved_for_input, action), action.microbatch);
  }
  out.saved_for_weight = any(place, of_stage(TensorKind::saved_for_weight, action), action.microbatch);
}

/// True of an R behind the action that makes the saved activations, so that there are none before.
bool TensorMap::made_again(ActionPlace place, const Action& action) const {
  const auto tensor = find(place, of_stage(TensorKind::saved_for_weight, action), action.microbatch);
  if (!tensor) return false;
  const InstructionId writer = plan_.table.writers_of(plan_.table.tensors[*tensor]).front();
  const auto made_by = program_.actions(writer);
  return place.instruction < writer &&
         std::ranges::any_of(made_by, [](const Action& a) { return a.kind == OpKind::recompute; });
}

/// The tensors saved by the slices before are still in memory: their B or I come after those of this one.
void TensorMap::slice_buffers(ActionPlace place, const Action& action, ActionBuffers& out) const {
  out.slice = action.slice;
  const bool backward = gives_input_gradient(action.kind);
  if (backward)
    out.kv_gradient = need(place, action, {.kind = TensorKind::kv_gradient, .subject = action.subject});
  if (action.kind != OpKind::forward && !backward) return;
  for (int k = 0; k < action.slice; ++k)
    out.earlier.push_back(need(place, action, of_stage(TensorKind::saved_for_input, at_slice(action, k))));
}

void TensorMap::gradient_buffers(ActionPlace place, const Action& action, ActionBuffers& out) const {
  const auto consumers = pipeline_.consumers(action.stage(), action.mb());
  const bool summed = pipeline_.gradient_sum(action.stage()).valid();
  for (std::size_t c = 0; c < (summed ? std::min<std::size_t>(consumers.size(), 1) : consumers.size()); ++c) {
    const std::span<std::byte> dy =
        need(place, action, of_edge(TensorKind::incoming_gradient, action, {action.stage(), consumers[c]}));
    c == 0 ? static_cast<void>(out.dy = dy) : out.further_dy.push_back(dy);
  }
  if (action.kind != OpKind::backward) {
    out.inner_gradients = need(place, action, of_stage(TensorKind::inner_gradients, action));
  }
}

/// Where a collective sums the input, all further ones are copies that the executor makes.
void TensorMap::input_gradients(ActionPlace place, const Action& action, ActionBuffers& out) const {
  const auto producers = pipeline_.producers(action.stage(), action.mb());
  if (producers.empty()) return;
  out.dx = input_gradient(place, action, producers.front());
  if (pipeline_.input_sum(action.stage()).valid() || out.dx.empty()) return;
  for (const StageId producer : producers.subspan(1))
    out.further_dx.push_back(input_gradient(place, action, producer));
}

/// The dx of the edge from a producer, where the action is the one that makes it.
std::span<std::byte> TensorMap::input_gradient(ActionPlace place, const Action& action,
                                               StageId producer) const {
  const CollectiveId sum = pipeline_.gradient_sum(producer);
  const bool in_forward = sum.valid() && pipeline_.spec().collectives[sum].after.kind == OpKind::forward;
  if (in_forward ? action.kind != OpKind::forward : !gives_input_gradient(action.kind)) return {};
  const bool local = pipeline_.rank_of(producer) == place.rank && !sum.valid();
  return need(place, action,
              local ? of_edge(TensorKind::incoming_gradient, action, {producer, action.stage()})
                    : of_edge(TensorKind::outgoing_gradient, action, {action.stage(), producer}));
}

std::vector<std::span<std::byte>> TensorMap::copies_of_dx(ActionPlace place, const Action& action) const {
  std::vector<std::span<std::byte>> copies;
  if (!pipeline_.input_sum(action.stage()).valid()) return copies;
  const auto producers = pipeline_.producers(action.stage(), action.mb());
  for (std::size_t other = 1; other < producers.size(); ++other)
    copies.push_back(input_gradient(place, action, producers[other]));
  return copies;
}

/// A tensor that is missing, because the Program is not well-formed, is no part.
CollectiveBuffers TensorMap::collective(ActionPlace place, const Action& action, Bytes statistics) const {
  const Collective& collective = pipeline_.spec().collectives[action.collective()];
  CollectiveBuffers out;
  for (const StageId stage : collective.after.stages) {
    if (pipeline_.rank_of(stage) != place.rank || !pipeline_.on_route(stage, action.mb())) continue;
    const Action pass = make_action(OpKind::forward, stage.value(), action.microbatch);
    if (statistics > 0) {
      out.part.statistics =
          need(place, pass, of_stage(TensorKind::saved_for_weight, pass)).first(as_size(statistics));
    }
    if (is_one_of(stage, consumers_of(pipeline_, collective.gradient_of, action.mb()))) {
      out.part.summand =
          any(place, of_edge(TensorKind::outgoing_gradient, pass, {stage, collective.gradient_of}),
              action.microbatch);
    } else if (is_one_of(stage, producers_of(pipeline_, collective.input_of, action.mb()))) {
      out.part.summand = any(place, of_stage(TensorKind::boundary_output, pass), action.microbatch);
    }
  }
  const bool of_gradient = collective.gradient_of.valid();
  const StageId reader = of_gradient ? collective.gradient_of : collective.input_of;
  if (!reader.valid() || !pipeline_.on_route(reader, action.mb())) return out;
  out.receiver = pipeline_.rank_of(reader);
  if (out.receiver != place.rank) return out;
  const Action read = make_action(OpKind::forward, reader.value(), action.microbatch);
  if (of_gradient) {
    const auto consumers = pipeline_.consumers(reader, action.mb());
    if (consumers.empty()) return out;
    const StageEdge edge{reader, consumers.front()};
    out.result = any(place, of_edge(TensorKind::incoming_gradient, read, edge), action.microbatch);
  } else {
    out.result = any(place, of_stage(TensorKind::boundary_input, read), action.microbatch);
  }
  return out;
}

void TensorMap::inputs(ActionPlace place, const Action& action, ActionBuffers& out) const {
  const auto producers = pipeline_.producers(action.stage(), action.mb());
  if (producers.empty() || pipeline_.input_sum(action.stage()).valid()) {
    out.x = need(place, action, of_stage(TensorKind::boundary_input, action));
    return;
  }
  for (const StageId producer : producers) {
    const std::span<std::byte> x = input_from(place, action, producer);
    producer == producers.front() ? static_cast<void>(out.x = x) : out.further_x.push_back(x);
  }
}

void TensorMap::side_buffers(ActionPlace place, const Action& action, ActionBuffers& out) const {
  for (const StageId producer : pipeline_.side_producers(action.stage(), action.mb())) {
    const bool local = pipeline_.rank_of(producer) == place.rank;
    out.side_inputs.push_back(
        need(place, action,
             local ? of_edge(TensorKind::boundary_output, action, {producer, action.stage()})
                   : of_edge(TensorKind::boundary_input, action, {action.stage(), producer})));
  }
  if (action.kind != OpKind::forward) return;
  for (const StageId consumer : pipeline_.side_consumers(action.stage(), action.mb()))
    out.side_outputs.push_back(
        need(place, action, of_edge(TensorKind::boundary_output, action, {action.stage(), consumer})));
}

std::span<std::byte> TensorMap::input_from(ActionPlace place, const Action& action, StageId producer) const {
  if (pipeline_.rank_of(producer) != place.rank) {
    Action holder = action;
    holder.subject = pipeline_.receiver(producer, action.stage(), action.mb()).value();
    return received_part(place, holder, producer);
  }
  return need(place, action,
              {.kind = TensorKind::boundary_output, .subject = producer.value(), .slice = action.slice});
}

/// Inputs from several ranks follow each other in x, by ascending producer.
std::span<std::byte> TensorMap::received_part(ActionPlace place, const Action& action, StageId from) const {
  const std::span<std::byte> x = need(place, action, of_stage(TensorKind::boundary_input, action));
  std::size_t offset = 0;
  for (const StageId producer : pipeline_.producers(action.stage(), action.mb())) {
    if (pipeline_.rank_of(producer) == place.rank) continue;
    if (pipeline_.receiver(producer, action.stage(), action.mb()) != action.stage()) continue;
    const auto size = as_size(
        sizes_({.kind = TensorKind::boundary_output, .subject = producer.value(), .slice = action.slice}));
    if (producer == from && offset + size <= x.size()) return x.subspan(offset, size);
    offset += size;
  }
  throw BackendError(ErrorCode::bad_argument, "the input of stage " + std::to_string(action.subject) +
                                                  " has no room for the outputs of its producers");
}

/// Whether a transfer is along a side edge.
bool TensorMap::is_side(const Action& transfer) const {
  const auto others =
      transfer.kind == OpKind::send_forward   ? pipeline_.side_consumers(transfer.stage(), transfer.mb())
      : transfer.kind == OpKind::recv_forward ? pipeline_.side_producers(transfer.stage(), transfer.mb())
                                              : std::span<const StageId>();
  return is_one_of(transfer.peer_stage(), others);
}

Payload TensorMap::payload(ActionPlace place, const Action& t) const {
  const StageEdge edge{t.stage(), t.peer_stage()};
  if (is_side(t)) {
    const bool sends = t.kind == OpKind::send_forward;
    return {
        need(place, t, of_edge(sends ? TensorKind::boundary_output : TensorKind::boundary_input, t, edge)),
        {}};
  }
  if (t.kind == OpKind::send_forward) return {need(place, t, of_stage(TensorKind::boundary_output, t)), {}};
  if (t.kind == OpKind::recv_forward) return {received_part(place, t, t.peer_stage()), {}};
  if (t.kind == OpKind::send_backward)
    return {need(place, t, of_edge(TensorKind::outgoing_gradient, t, edge)), {}};
  if (t.kind == OpKind::recv_backward)
    return {need(place, t, of_edge(TensorKind::incoming_gradient, t, edge)), {}};
  if (pipeline_.rank_of(t.stage()) == place.rank) return saved(place, t);
  return {need(place, t, of_stage(TensorKind::lent_activations, t)), {}};
}

Payload TensorMap::saved(ActionPlace place, const Action& action) const {
  if (made_again(place, action)) {
    throw BackendError(ErrorCode::ill_formed, "rank " + std::to_string(place.rank.value()) + ": " +
                                                  action_text(pipeline_, action) +
                                                  " moves activations that an R is yet to make");
  }
  return {need(place, action, of_stage(TensorKind::saved_for_input, action)),
          need(place, action, of_stage(TensorKind::saved_for_weight, action))};
}

std::array<Bytes, 2> TensorMap::saved_sizes(const Action& action) const {
  return {sizes_(of_stage(TensorKind::saved_for_input, action)),
          sizes_(of_stage(TensorKind::saved_for_weight, action))};
}

std::span<std::byte> TensorMap::batch(ActionPlace place, const Action& load) const {
  return need(place, load, of_stage(TensorKind::boundary_input, load));
}

std::span<std::byte> TensorMap::gathered(ActionPlace place, StageId stage) const {
  const auto tensor = find(place, {.kind = TensorKind::gathered_parameters, .subject = stage.value()}, -1);
  if (!tensor || pipeline_.asynchronous()) return {};
  const InstructionId last = plan_.table.users_of(plan_.table.tensors[*tensor]).back();
  return last < place.instruction ? std::span<std::byte>{} : memory(*tensor);
}

std::span<std::byte> TensorMap::optimizer_state(RankId rank, BlockId block) const {
  return any({rank, InstructionId(kEnd)}, of_block(TensorKind::optimizer_state, block), -1);
}

std::span<std::byte> TensorMap::parameters(RankId rank, BlockId block, int version) const {
  const Entry* entry =
      newest_until({rank, of_block(TensorKind::parameters, block), version, kEnd, ~std::uint32_t{0}});
  return entry == nullptr ? std::span<std::byte>{} : memory(entry->tensor);
}

std::span<std::byte> TensorMap::gradients(RankId rank, BlockId block, int update) const {
  return any({rank, InstructionId(kEnd)}, of_block(TensorKind::gradients, block), update);
}

bool TensorMap::makes_gradients(ActionPlace place, BlockId block, int update) const {
  const auto tensor = find(place, of_block(TensorKind::gradients, block), update);
  return tensor && plan_.table.writers_of(plan_.table.tensors[*tensor]).front() == place.instruction;
}

std::span<std::byte> TensorMap::summand(RankId rank, BlockId block, MicrobatchId mb) const {
  if (!pipeline_.spec().blocks[block].reduced_each_microbatch)
    return gradients(rank, block, pipeline_.spec().update[mb]);
  return any({rank, InstructionId(kEnd)}, of_block(TensorKind::partial_gradients, block), mb.value());
}

bool TensorMap::makes_summand(ActionPlace place, BlockId block, MicrobatchId mb) const {
  if (!pipeline_.spec().blocks[block].reduced_each_microbatch)
    return makes_gradients(place, block, pipeline_.spec().update[mb]);
  const auto tensor = find(place, of_block(TensorKind::partial_gradients, block), mb.value());
  return tensor && plan_.table.writers_of(plan_.table.tensors[*tensor]).front() == place.instruction;
}

}  // namespace ppsim::gpu_backend
