#include "ppsim/planner/costs/rank_memory.hpp"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "ppsim/core/memory/tensors.hpp"

namespace ppsim::planner {
namespace {

/// Sizes of the messages of one channel after another, and the most that a few in a row take.
class SlidingSum {
 public:
  explicit SlidingSum(int length) : length_(as_size(length)) {}

  void begin() {
    sizes_.clear();
    now_ = max_ = 0;
  }
  void add(Bytes size) {
    sizes_.push_back(size);
    now_ = checked_add(now_, size);
    if (sizes_.size() > length_) now_ -= sizes_[sizes_.size() - 1 - length_];
    max_ = std::max(max_, now_);
  }
  [[nodiscard]] Bytes most() const { return max_; }

 private:
  std::size_t length_;
  std::vector<Bytes> sizes_;
  Bytes now_ = 0;
  Bytes max_ = 0;
};

IdVector<RankId, Bytes> transport_bytes(const Program& program, const ExecutionGraph& graph,
                                        const SizeTable& sizes) {
  IdVector<RankId, Bytes> bytes(as_size(program.pipeline().ranks()), 0);
  if (!graph.capabilities.credits) return bytes;
  SlidingSum waiting(*graph.capabilities.credits);
  for (std::size_t i = 0; i < graph.messages.size(); ++i) {
    const Message& message = graph.messages[i];
    if (message.previous < 0) waiting.begin();
    waiting.add(sizes(payload_class(program.all_actions()[message.send_action])));
    const bool last = i + 1 == graph.messages.size() || graph.messages[i + 1].previous < 0;
    Bytes& of_rank = bytes[program.rank_of(message.send)];
    if (last) of_rank = checked_add(of_rank, waiting.most());
  }
  return bytes;
}

}  // namespace

RankMemory rank_memory(const AnalyzedProgram& analyzed, const SizeTable& sizes,
                       const RankMemoryOptions& options) {
  const std::vector<Bytes> bytes = tensor_sizes(analyzed.tensors(), sizes);
  RankMemory memory{.pool_bytes = std::nullopt,
                    .transport_bytes = transport_bytes(analyzed.program(), analyzed.graph(), sizes)};
  if (auto plan = plan_slots_within(analyzed, bytes, options.limits, options.alignment))
    memory.pool_bytes = std::move(plan->pool_bytes);
  memory.stopped = !memory.pool_bytes && options.limits.stopped && options.limits.stopped();
  return memory;
}

IdVector<RankId, Bytes> communicator_bytes(const Program& program, const EdgeMemory& of_edge) {
  std::set<std::tuple<CommunicatorId, RankId, RankId>> edges;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(program.size()); ++i) {
    const InstructionId id(i);
    const auto actions = program.actions(id);
    for (std::size_t a = 0; a < actions.size(); ++a) {
      if (is_send(actions[a].kind))
        edges.emplace(program.communicators_of(id)[a], program.rank_of(id),
                      peer_rank(program.pipeline(), actions[a]));
    }
  }
  IdVector<RankId, Bytes> bytes(as_size(program.pipeline().ranks()), 0);
  for (const auto& [communicator, sender, receiver] : edges) {
    bytes[sender] = checked_add(bytes[sender], of_edge.at_sender);
    bytes[receiver] = checked_add(bytes[receiver], of_edge.at_receiver);
  }
  return bytes;
}

}  // namespace ppsim::planner
