#include <algorithm>

#include "ppsim/core/ir/sequences.hpp"
#include "ppsim/verifier/memory/memory.hpp"

namespace ppsim::verifier {
namespace {

/// Everything that must happen before given starts, over all ranks.
class Past {
 public:
  explicit Past(const ExecutionGraph& graph)
      : graph_(graph),
        needs_start_(graph.size()),
        needs_end_(graph.size()),
        needs_sent_(graph.messages.size()),
        needs_received_(graph.messages.size()) {}

  void add_start(InstructionId id) {
    if (std::exchange(needs_start_[id.index()], 1) == 0) open_.push_back(id);
  }

  void close() {
    while (!open_.empty()) {
      const InstructionId id = open_.back();
      open_.pop_back();
      for (const InstructionId predecessor : graph_.predecessors_of(id)) add_end(predecessor);
    }
  }

  /// Once started, an instruction completes with the last of its parts, whatever else needs it.
  [[nodiscard]] bool completes(InstructionId id) const {
    const auto messages = graph_.messages_of(id);
    if (messages.empty()) return needs_end_[id.index()] != 0;
    return std::ranges::all_of(messages, [&](std::uint32_t m) {
      const bool lags = graph_.capabilities.receipts_lag() && is_receipt(m, id);
      return (lags ? needs_received_ : needs_sent_)[m] != 0;
    });
  }

 private:
  [[nodiscard]] bool is_receipt(std::size_t m, InstructionId id) const {
    return graph_.capabilities.credits && graph_.messages[m].receive == id;
  }

  void add_end(InstructionId id) {
    if (std::exchange(needs_end_[id.index()], 1) != 0) return;
    add_start(id);
    for (const std::uint32_t m : graph_.messages_of(id)) is_receipt(m, id) ? add_received(m) : add_sent(m);
    if (const std::int32_t match = graph_.match_of[id.index()]; match >= 0) {
      for (const InstructionId member : graph_.members_of(graph_.matches[as_size(match)])) add_start(member);
    }
  }

  void add_sent(std::size_t m) {
    for (std::int32_t k = static_cast<std::int32_t>(m); k >= 0; k = graph_.messages[as_size(k)].previous) {
      if (std::exchange(needs_sent_[as_size(k)], 1) != 0) return;
      const Message& message = graph_.messages[as_size(k)];
      add_start(message.send);
      if (!graph_.capabilities.credits) add_start(message.receive);
      if (message.credit >= 0) add_received(as_size(message.credit));
    }
  }

  void add_received(std::size_t m) {
    for (std::int32_t k = static_cast<std::int32_t>(m); k >= 0; k = graph_.messages[as_size(k)].previous) {
      if (std::exchange(needs_received_[as_size(k)], 1) != 0) return;
      add_start(graph_.messages[as_size(k)].receive);
      add_sent(as_size(k));
    }
  }

  const ExecutionGraph& graph_;
  std::vector<char> needs_start_;
  std::vector<char> needs_end_;
  std::vector<char> needs_sent_;
  std::vector<char> needs_received_;
  std::vector<InstructionId> open_;
};

}  // namespace

FiringOrder firing_order(const ExecutionGraph& graph, const RunOrder& order, const WorstCase& worst) {
  Past past(graph);
  for (const InstructionId id : worst.reached) past.add_start(id);
  past.close();
  std::vector<char> started(graph.size(), 0);
  std::vector<char> complete(graph.size(), 0);
  FiringOrder firing;
  std::vector<std::uint32_t> later;
  for (const std::uint32_t item : order.items) {
    const InstructionId id(static_cast<std::int32_t>(item / 2));
    // Every instruction starts as early as it can, and completes as late as it may.
    const bool starts = std::ranges::all_of(graph.predecessors_of(id),
                                            [&](InstructionId p) { return complete[p.index()] != 0; });
    const bool happens = item % 2 == 0 ? starts : started[id.index()] != 0 && past.completes(id);
    if (happens) (item % 2 == 0 ? started : complete)[id.index()] = 1;
    (happens ? firing.items : later).push_back(item);
  }
  firing.moment = firing.items.size();
  append_all(firing.items, later);
  return firing;
}

Bytes memory_at(const TensorTable& tensors, const std::vector<Bytes>& sizes, RankId rank,
                const FiringOrder& firing) {
  std::vector<char> happened(firing.items.size(), 0);
  for (std::size_t i = 0; i < firing.moment; ++i) happened[firing.items[i]] = 1;
  const auto started = [&](InstructionId id) { return happened[2 * id.index()] != 0; };
  const auto complete = [&](InstructionId id) { return happened[2 * id.index() + 1] != 0; };
  Bytes bytes = 0;
  for (std::size_t t = 0; t < tensors.tensors.size(); ++t) {
    const Tensor& tensor = tensors.tensors[t];
    if (tensor.rank != rank) continue;
    const bool born = tensor.from_start || std::ranges::any_of(tensors.writers_of(tensor), started);
    const bool dead = !tensor.to_end && std::ranges::all_of(tensors.users_of(tensor), complete);
    if (born && !dead) bytes = checked_add(bytes, sizes[t]);
  }
  return bytes;
}

}  // namespace ppsim::verifier
