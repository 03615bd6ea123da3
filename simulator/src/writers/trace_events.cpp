#include "trace_events.hpp"

#include <algorithm>

#include "ppsim/core/io/text.hpp"

namespace ppsim::simulator {
namespace {

void add_slices(const TimedRun& run, RankId rank, TraceEvents& events) {
  const std::size_t first = events.slices.size();
  for (const InstructionId id : run.program.ids_of(rank)) {
    const Span& span = run.trace.spans[id];
    for (const int queue : run.program.queues_of(id)) {
      events.slices.push_back({rank, queue, id, span.start.time, span.end.time});
    }
  }
  std::stable_sort(events.slices.begin() + static_cast<std::ptrdiff_t>(first), events.slices.end(),
                   [](const TraceSlice& a, const TraceSlice& b) { return a.queue < b.queue; });
  for (std::size_t i = first; i < events.slices.size(); ++i) {
    const TraceSlice& slice = events.slices[i];
    if (i == first || slice.queue != events.slices[i - 1].queue) events.queues.push_back({rank, slice.queue});
  }
}

/// The slice of an instruction on the queue of one of its actions.
class SliceFinder {
 public:
  SliceFinder(const Program& program, const std::vector<TraceSlice>& slices)
      : program_(program), begin_(program.size() + 1) {
    for (const TraceSlice& slice : slices) ++begin_[slice.instruction.index() + 1];
    for (std::size_t i = 1; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
    by_instruction_.resize(slices.size());
    std::vector<std::size_t> fill(begin_.begin(), begin_.end() - 1);
    for (std::size_t i = 0; i < slices.size(); ++i)
      by_instruction_[fill[slices[i].instruction.index()]++] = i;
  }

  [[nodiscard]] std::size_t find(const std::vector<TraceSlice>& slices, InstructionId id,
                                 std::uint32_t action) const {
    const std::size_t member = action - program_.instruction(id).first_action;
    const int queue = program_.queue_of(program_.actions(id)[member], program_.communicators_of(id)[member]);
    std::size_t at = begin_[id.index()];
    while (slices[by_instruction_[at]].queue != queue) ++at;
    return by_instruction_[at];
  }

 private:
  const Program& program_;
  std::vector<std::size_t> begin_;
  std::vector<std::size_t> by_instruction_;
};

void add_flows(const TimedRun& run, TraceEvents& events) {
  const SliceFinder finder(run.program, events.slices);
  for (const Message& message : run.graph.messages) {
    if (!message.complete()) continue;
    TraceFlow flow;
    flow.from = finder.find(events.slices, message.send, message.send_action);
    flow.to = finder.find(events.slices, message.receive, message.receive_action);
    const TraceSlice& send = events.slices[flow.from];
    const TraceSlice& receive = events.slices[flow.to];
    flow.leaves = std::min(send.end, std::max(send.start, receive.start));
    flow.arrives = std::max(receive.start, flow.leaves);
    events.flows.push_back(flow);
  }
}

}  // namespace

TraceEvents trace_events(const TimedRun& run) {
  TraceEvents events;
  for (const RankId rank : run.program.pipeline().rank_ids()) add_slices(run, rank, events);
  add_flows(run, events);
  const TensorTable& tensors = run.analyzed.tensors();
  events.memory = replay_memory(run.program, run.trace, tensors, tensor_sizes(tensors, run.sizes));
  return events;
}

std::string slice_name(const Program& program, InstructionId id) { return "PP:" + actions_text(program, id); }

}  // namespace ppsim::simulator
