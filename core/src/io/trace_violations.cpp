#include <algorithm>
#include <limits>
#include <sstream>

#include "ppsim/core/io/text.hpp"
#include "ppsim/core/io/trace_csv.hpp"

namespace ppsim {
namespace {

/// Looks at times alone: a file has no rounds.
class TraceCheck {
 public:
  TraceCheck(const AnalyzedProgram& analyzed, const TimedTrace& trace)
      : program_(analyzed.program()), trace_(trace), graph_(analyzed.guaranteed_graph()) {}

  std::vector<Violation> run() {
    for (const InstructionId id : program_.ids()) check_start(id);
    for (const Message& message : graph_.messages) {
      if (message.complete()) check_end(message.receive, message.send);
    }
    for (const CollectiveMatch& match : graph_.matches) check_match(match);
    std::ranges::stable_sort(found_, {}, &Violation::instruction);
    return std::move(found_);
  }

 private:
  void check_start(InstructionId id) {
    const Instant start = trace_.spans[id].start;
    if (!happened(start)) return;
    for (const InstructionId on : graph_.predecessors_of(id)) {
      const Instant end = trace_.spans[on].end;
      if (!happened(end) || start.time < end.time) report({id, " starts", start}, {on, " completes", end});
    }
  }

  /// `id` completes only after `other` has started.
  void check_end(InstructionId id, InstructionId other) {
    const Instant end = trace_.spans[id].end;
    if (!happened(end)) return;
    const Instant start = trace_.spans[other].start;
    if (!happened(start) || end.time < start.time) report({id, " completes", end}, {other, " starts", start});
  }

  void check_match(const CollectiveMatch& match) {
    const auto members = graph_.members_of(match);
    const auto latest = [&](InstructionId a, InstructionId b) { return started(a) < started(b); };
    const InstructionId last = *std::ranges::max_element(members, latest);
    for (const InstructionId member : members) check_end(member, last);
  }

  /// Instructions that did not start come last.
  [[nodiscard]] Nanoseconds started(InstructionId id) const {
    const Instant start = trace_.spans[id].start;
    return happened(start) ? start.time : std::numeric_limits<Nanoseconds>::max();
  }

  /// One event of `id` that came before another of `other`.
  struct Event {
    InstructionId id;
    const char* verb;
    Instant at;
  };

  void report(const Event& event, const Event& needed) {
    std::ostringstream text;
    text << text_of(event.id) << event.verb << " at " << event.at.time << " ns, ";
    if (happened(needed.at)) {
      text << "before " << text_of(needed.id) << needed.verb << " at " << needed.at.time << " ns";
    } else {
      text << "and " << text_of(needed.id) << " never" << needed.verb;
    }
    found_.push_back({event.id, text.str()});
  }

  [[nodiscard]] std::string text_of(InstructionId id) const {
    std::ostringstream text;
    text << "rank " << program_.rank_of(id) << ": " << actions_text(program_, id);
    return text.str();
  }

  const Program& program_;
  const TimedTrace& trace_;
  const ExecutionGraph& graph_;
  std::vector<Violation> found_;
};

}  // namespace

std::vector<Violation> trace_violations(const AnalyzedProgram& analyzed, const TimedTrace& trace) {
  return TraceCheck(analyzed, trace).run();
}

}  // namespace ppsim
