#include "parts.hpp"
#include "ppsim/core/io/text.hpp"

namespace ppsim {
namespace {

/// Replays an order item by item.
///
/// Recursion along a channel is shallow: the transfers of a channel share a queue, so when one has started,
/// those before it are complete or members of the same group.
class OrderReplay {
 public:
  OrderReplay(const Program& program, const ExecutionGraph& graph)
      : program_(program),
        graph_(graph),
        started_(graph.size(), false),
        complete_(graph.size(), false),
        out_(graph.messages.size(), false),
        received_(graph.messages.size(), false) {}

  Expected<void> run(const std::vector<std::uint32_t>& items) {
    if (items.size() != 2 * graph_.size()) {
      return refuse("the order has ", items.size(), " items, expected a start and a completion of each of ",
                    graph_.size(), " instructions");
    }
    for (const std::uint32_t item : items) {
      if (item >= items.size())
        return refuse("the order names instruction ", item / 2, ", which is not there");
      const InstructionId id(static_cast<std::int32_t>(item / 2));
      PPSIM_RETURN_IF_ERROR(item % 2 == 0 ? start(id) : complete(id));
    }
    return {};  // as many items as starts and completions, none twice: nothing is missing
  }

 private:
  [[nodiscard]] std::string name(InstructionId id) const {
    return "rank " + std::to_string(program_.rank_of(id).value()) + ": " + actions_text(program_, id);
  }

  Expected<void> start(InstructionId id) {
    if (started_[id.index()]) return refuse(name(id), " starts twice");
    for (const InstructionId predecessor : graph_.predecessors_of(id)) {
      if (!complete_[predecessor.index()]) {
        return refuse(name(id), " starts before ", name(predecessor), " is complete");
      }
    }
    started_[id.index()] = true;
    return {};
  }

  Expected<void> complete(InstructionId id) {
    if (!started_[id.index()]) return refuse(name(id), " completes before it starts");
    if (complete_[id.index()]) return refuse(name(id), " completes twice");
    for (const std::uint32_t m : graph_.messages_of(id)) {
      const Message& message = graph_.messages[m];
      const bool over = (message.send != id || is_out(m)) && (message.receive != id || is_received(m));
      const InstructionId peer = message.send == id ? message.receive : message.send;
      if (!over) return refuse(name(id), " completes before its transfer with ", name(peer), " can");
    }
    if (const std::int32_t match = graph_.match_of[id.index()]; match >= 0) {
      for (const InstructionId member : graph_.members_of(graph_.matches[as_size(match)])) {
        if (!started_[member.index()]) return refuse(name(id), " completes before ", name(member), " starts");
      }
    }
    complete_[id.index()] = true;
    return {};
  }

  [[nodiscard]] bool is_out(std::size_t m) {
    if (out_[m]) return true;
    const Message& message = graph_.messages[m];
    if (!started_[message.send.index()]) return false;
    if (message.previous >= 0 && !is_out(as_size(message.previous))) return false;
    if (!graph_.capabilities.credits) {
      if (!started_[message.receive.index()]) return false;
    } else if (message.credit >= 0 && !is_received(as_size(message.credit))) {
      return false;
    }
    return out_[m] = true;
  }

  [[nodiscard]] bool is_received(std::size_t m) {
    if (received_[m]) return true;
    const Message& message = graph_.messages[m];
    if (!started_[message.receive.index()] || !is_out(m)) return false;
    if (message.previous >= 0 && !is_received(as_size(message.previous))) return false;
    return received_[m] = true;
  }

  const Program& program_;
  const ExecutionGraph& graph_;
  std::vector<bool> started_;
  std::vector<bool> complete_;
  std::vector<bool> out_;
  std::vector<bool> received_;
};

}  // namespace

Expected<void> check_certificate_order(const Program& program, const ExecutionGraph& graph,
                                       const std::vector<std::uint32_t>& items) {
  return OrderReplay(program, graph).run(items);
}

}  // namespace ppsim
