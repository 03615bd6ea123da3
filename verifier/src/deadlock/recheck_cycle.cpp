#include <algorithm>
#include <set>

#include "ppsim/verifier/deadlock/deadlock.hpp"

namespace ppsim::verifier {
namespace {

/// Parts of messages: in flight (rendezvous: transferred), or received.
struct Part {
  std::int32_t message;
  bool received;
  friend auto operator<=>(const Part&, const Part&) = default;
};

/// The instructions that must have started before `id`, once started, completes: read off rules E5 to E7.
class NeededStarts {
 public:
  NeededStarts(const ExecutionGraph& graph, InstructionId id) : graph_(graph) {
    const bool rendezvous = !graph.capabilities.credits.has_value();
    for (const std::uint32_t k : graph.messages_of(id)) {
      add({static_cast<std::int32_t>(k), rendezvous || graph.messages[k].receive == id});
    }
    if (const std::int32_t match = graph.match_of[id.index()]; match >= 0) {
      const auto members = graph.members_of(graph.matches[as_size(match)]);
      starts_.insert(members.begin(), members.end());
    }
    while (!open_.empty()) {
      const Part part = open_.back();
      open_.pop_back();
      visit(part);
    }
  }

  [[nodiscard]] bool contains(InstructionId id) const { return starts_.contains(id); }

 private:
  void visit(Part part) {
    const Message& m = graph_.messages[as_size(part.message)];
    if (part.received) {
      starts_.insert(m.receive);
      add({part.message, false});
    } else {
      starts_.insert(m.send);
      if (!graph_.capabilities.credits) starts_.insert(m.receive);
      if (m.previous >= 0) add({m.previous, false});
      if (m.credit >= 0) add({m.credit, true});
    }
  }

  void add(Part part) {
    if (seen_.insert(part).second) open_.push_back(part);
  }

  const ExecutionGraph& graph_;
  std::vector<Part> open_;
  std::set<Part> seen_;
  std::set<InstructionId> starts_;
};

bool is_genuine(const ExecutionGraph& graph, const Wait& wait) {
  const InstructionId who = wait.who.instruction;
  const InstructionId other = wait.waits_for.instruction;
  if (!delays_start(wait.reason)) return NeededStarts(graph, who).contains(other);
  const auto predecessors = graph.predecessors_of(who);
  return std::ranges::find(predecessors, other) != predecessors.end();
}

}  // namespace

Expected<void> recheck_cycle(const Program& program, const ExecutionGraph& graph,
                             const std::vector<Wait>& cycle) {
  const auto refuse = [](const Wait& wait, const std::string& why) {
    return make_error(ErrorCode::refused, to_string(wait) + ": " + why);
  };
  if (cycle.empty()) return make_error(ErrorCode::refused, "an empty cycle");
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    const Wait& wait = cycle[i];
    const Wait& next = cycle[(i + 1) % cycle.size()];
    for (const NamedInstruction& place : {wait.who, wait.waits_for}) {
      const auto id = place.instruction;
      if (!id.valid() || id.index() >= program.size()) return refuse(wait, "no such instruction");
      if (place != named_instruction(program, id))
        return refuse(wait, "the Program has another instruction there");
    }
    if (wait.waits_for != next.who) return refuse(wait, "the next item is about something else");
    if (!is_genuine(graph, wait)) return refuse(wait, "no such wait");
    if (!delays_start(wait.reason) && !delays_start(next.reason)) {
      return refuse(wait, "what it waits for may start");
    }
  }
  return {};
}

}  // namespace ppsim::verifier
