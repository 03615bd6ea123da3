#include <nlohmann/json.hpp>
#include <ostream>
#include <utility>

#include "ppsim/simulator/writers/perfetto.hpp"
#include "trace_events.hpp"

namespace ppsim::simulator {
namespace {

using Json = nlohmann::ordered_json;

/// Tools take thread 0 for the idle task.
int thread_of(int queue) { return queue + 1; }

/// Exact to the nanosecond up to 2^53 / 1000 microseconds (104 days).
double microseconds(Nanoseconds time) { return static_cast<double>(time) / 1000; }

const char* category(const Program& program, InstructionId id) {
  switch (info(program.actions(id)[0].kind).resource) {
    case Resource::compute:
      return "compute";
    case Resource::p2p:
      return "p2p";
    case Resource::collective:
      return "collective";
    case Resource::copy:
      return "copy";
  }
  return "";
}

/// Writes the events one by one, so that a large trace is never held as JSON.
class ChromeWriter {
 public:
  ChromeWriter(std::ostream& out, const TimedRun& run, TracePlace place)
      : out_(out), run_(run), place_(std::move(place)), events_(trace_events(run)), first_(place_.run == 0) {}

  void write() {
    for (const RankId rank : run_.program.pipeline().rank_ids()) name_process(rank);
    for (const TraceQueue& queue : events_.queues) name_thread(queue);
    for (const TraceSlice& slice : events_.slices) write_slice(slice);
    for (std::size_t i = 0; i < events_.flows.size(); ++i) write_flow(i);
    for (const RankId r : run_.program.pipeline().rank_ids()) write_memory(r);
  }

 private:
  void emit(const Json& event) {
    out_ << (first_ ? "\n" : ",\n") << event.dump();
    first_ = false;
  }

  void name_process(RankId rank) {
    const int process = place_.process(rank);
    emit({{"ph", "M"},
          {"name", "process_name"},
          {"pid", process},
          {"args", {{"name", place_.process_name(rank)}}}});
    emit(
        {{"ph", "M"}, {"name", "process_sort_index"}, {"pid", process}, {"args", {{"sort_index", process}}}});
  }

  void name_thread(const TraceQueue& queue) {
    const int thread = thread_of(queue.queue);
    emit({{"ph", "M"},
          {"name", "thread_name"},
          {"pid", place_.process(queue.rank)},
          {"tid", thread},
          {"args", {{"name", run_.program.queue_name(queue.queue)}}}});
    emit({{"ph", "M"},
          {"name", "thread_sort_index"},
          {"pid", place_.process(queue.rank)},
          {"tid", thread},
          {"args", {{"sort_index", thread}}}});
  }

  void write_slice(const TraceSlice& slice) {
    emit({{"ph", "X"},
          {"name", slice_name(run_.program, slice.instruction)},
          {"cat", category(run_.program, slice.instruction)},
          {"pid", place_.process(slice.rank)},
          {"tid", thread_of(slice.queue)},
          {"ts", microseconds(slice.start)},
          {"dur", microseconds(slice.end - slice.start)},
          {"args", {{"index", run_.program.position(slice.instruction)}}}});
  }

  void write_flow(std::size_t index) {
    const TraceFlow& flow = events_.flows[index];
    const auto end = [&](const char* phase, const TraceSlice& slice, Nanoseconds time) {
      return Json{{"ph", phase},
                  {"name", "message"},
                  {"cat", "p2p"},
                  {"id", place_.flow(index)},
                  {"pid", place_.process(slice.rank)},
                  {"tid", thread_of(slice.queue)},
                  {"ts", microseconds(time)}};
    };
    emit(end("s", events_.slices[flow.from], flow.leaves));
    Json arrival = end("f", events_.slices[flow.to], flow.arrives);
    arrival["bp"] = "e";  // binds to the slice around it, not to the next one
    emit(arrival);
  }

  void write_memory(RankId rank) {
    const MemoryProfile& profile = events_.memory[rank];
    if (profile.peak_bytes == 0) return;
    for (const MemoryPoint& point : profile.points) {
      emit({{"ph", "C"},
            {"name", "memory"},
            {"pid", place_.process(rank)},
            {"ts", microseconds(point.at.time)},
            {"args", {{"bytes", point.bytes}}}});
    }
  }

  std::ostream& out_;
  const TimedRun& run_;
  TracePlace place_;
  TraceEvents events_;
  bool first_;
};

}  // namespace

void write_chrome_trace(std::ostream& out, const TimedRun& run) {
  const TracedRun only{"", run};
  write_chrome_trace(out, {&only, 1});
}

void write_chrome_trace(std::ostream& out, std::span<const TracedRun> runs) {
  out << "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
  for (std::size_t i = 0; i < runs.size(); ++i) {
    ChromeWriter(out, runs[i].run, {static_cast<int>(i), static_cast<int>(runs.size()), runs[i].name})
        .write();
  }
  out << "\n]}\n";
}

}  // namespace ppsim::simulator
