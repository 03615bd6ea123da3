#include "support/blocked_run.hpp"

#include <algorithm>
#include <utility>

namespace ppsim::test {
namespace {

class Run {
 public:
  Run(const ExecutionGraph& graph, const Obstacle& obstacle)
      : graph_(graph),
        obstacle_(obstacle),
        out_(graph.messages.size(), 0),
        received_(graph.messages.size(), 0),
        met_(graph.matches.size(), 0) {
    result_.started.assign(graph.size(), 0);
    result_.complete.assign(graph.size(), 0);
  }

  BlockedRun run() {
    while (sweep()) {
    }
    return std::move(result_);
  }

 private:
  /// Sets a mark; true when it is new and not the obstacle.
  bool mark(std::vector<char>& marks, std::size_t index, Obstacle::Kind kind) {
    if (marks[index] != 0 || (obstacle_.kind == kind && obstacle_.index == index)) return false;
    marks[index] = 1;
    return true;
  }
  [[nodiscard]] bool started(InstructionId id) const {
    return id.valid() && result_.started[id.index()] != 0;
  }
  static bool done(const std::vector<char>& marks, std::int32_t index) {
    return index < 0 || marks[static_cast<std::size_t>(index)] != 0;
  }

  bool sweep() {
    bool moved = false;
    for (std::size_t m = 0; m < graph_.messages.size(); ++m) moved |= move_message(m);
    for (std::size_t c = 0; c < graph_.matches.size(); ++c) {
      const auto members = graph_.members_of(graph_.matches[c]);
      const bool ready = graph_.matches[c].complete &&
                         std::all_of(members.begin(), members.end(), [&](auto id) { return started(id); });
      moved |= ready && std::exchange(met_[c], 1) == 0;
    }
    for (std::size_t i = 0; i < graph_.size(); ++i) {
      moved |= move_instruction(InstructionId(static_cast<std::int32_t>(i)));
    }
    return moved;
  }

  bool move_message(std::size_t m) {
    const Message& message = graph_.messages[m];
    const bool credits = graph_.capabilities.credits.has_value();
    const bool free = credits ? done(received_, message.credit) : started(message.receive);
    bool moved = false;
    if (started(message.send) && free && done(out_, message.previous)) {
      moved = mark(out_, m, Obstacle::Kind::out);
    }
    if (out_[m] != 0 && started(message.receive) && done(received_, message.previous)) {
      moved |= mark(received_, m, Obstacle::Kind::received);
    }
    return moved;
  }

  bool move_instruction(InstructionId id) {
    const auto before = graph_.predecessors_of(id);
    if (!started(id)) {
      if (graph_.waits_forever(id)) return false;
      if (std::any_of(before.begin(), before.end(),
                      [&](auto p) { return result_.complete[p.index()] == 0; })) {
        return false;
      }
      result_.started[id.index()] = 1;
      return true;
    }
    return parts_over(id) && mark(result_.complete, id.index(), Obstacle::Kind::work);
  }

  [[nodiscard]] bool parts_over(InstructionId id) const {
    const auto messages = graph_.messages_of(id);
    return std::all_of(messages.begin(), messages.end(),
                       [&](std::uint32_t m) {
                         return (graph_.messages[m].send != id || out_[m] != 0) &&
                                (graph_.messages[m].receive != id || received_[m] != 0);
                       }) &&
           done(met_, graph_.match_of[id.index()]);
  }

  const ExecutionGraph& graph_;
  Obstacle obstacle_;
  BlockedRun result_;
  std::vector<char> out_;
  std::vector<char> received_;
  std::vector<char> met_;
};

}  // namespace

std::vector<Obstacle> parts_of(const ExecutionGraph& graph, InstructionId id) {
  std::vector<Obstacle> parts;
  // Under rendezvous both ends are over together, so what stops one stops the other. Members of a collective
  // complete one by one.
  const bool credits = graph.capabilities.credits.has_value();
  for (const std::uint32_t m : graph.messages_of(id)) {
    const bool receives = credits && graph.messages[m].receive == id;
    parts.push_back({receives ? Obstacle::Kind::received : Obstacle::Kind::out, m});
  }
  if (parts.empty()) parts.push_back({Obstacle::Kind::work, id.index()});
  return parts;
}

BlockedRun run_without(const ExecutionGraph& graph, const Obstacle& obstacle) {
  return Run(graph, obstacle).run();
}

}  // namespace ppsim::test
