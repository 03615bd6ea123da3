#include "ppsim/gpu_backend/measured_costs.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "ppsim/core/execution_graph.hpp"

namespace ppsim {
namespace {

/// Durations of one Program's runs, by cost class.
class Samples {
 public:
  Samples(const Program& program, const ExecutionGraph& graph) : program_(program), graph_(graph) {}

  void add(const TimedTrace& trace) {
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(program_.size()); ++i)
      add_local(trace, InstructionId(i));
    for (const Message& message : graph_.messages) add_message(trace, message);
    for (const CollectiveMeeting& meeting : graph_.meetings) add_meeting(trace, meeting);
  }

  CostTable medians() {
    CostTable table;
    for (auto& [key, durations] : samples_) {
      const auto middle = durations.begin() + static_cast<std::ptrdiff_t>(durations.size() / 2);
      std::nth_element(durations.begin(), middle, durations.end());
      table.set(key, *middle);
    }
    return table;
  }

 private:
  void add_local(const TimedTrace& trace, InstructionId id) {
    const auto actions = program_.actions(id);
    if (is_communication(actions.front().kind)) return;
    add(cost_class_of(actions, program_.instruction(id).form), trace.spans[id].start, trace.spans[id].end);
  }

  void add_message(const TimedTrace& trace, const Message& message) {
    if (!message.complete()) return;
    const Span& send = trace.spans[message.send];
    const Span& receive = trace.spans[message.receive];
    if (!happened(send) || !happened(receive)) return;
    add(cost_class_of(program_.all_actions()[message.send_action]), std::max(send.start, receive.start),
        receive.end);
  }

  void add_meeting(const TimedTrace& trace, const CollectiveMeeting& meeting) {
    const auto members = graph_.members_of(meeting);
    Instant start{-1, 0};
    for (const InstructionId member : members) {
      if (!happened(trace.spans[member])) return;
      start = std::max(start, trace.spans[member].start);
    }
    for (const InstructionId member : members) {
      add(cost_class_of(program_.actions(member).front()), start, trace.spans[member].end);
    }
  }

  static bool happened(const Span& span) { return span.start.time >= 0 && span.end.time >= 0; }

  void add(const CostClass& key, Instant start, Instant end) {
    if (start.time >= 0 && end.time >= start.time) samples_[key].push_back(end.time - start.time);
  }

  const Program& program_;
  const ExecutionGraph& graph_;
  std::map<CostClass, std::vector<Nanoseconds>> samples_;
};

}  // namespace

CostTable measured_costs(const Program& program, std::span<const TimedTrace> traces) {
  const ExecutionGraph graph = build_execution_graph(program, rendezvous());
  Samples samples(program, graph);
  for (const TimedTrace& trace : traces) samples.add(trace);
  return samples.medians();
}

}  // namespace ppsim
