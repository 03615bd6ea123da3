#include "support/gpu_probe/partition_times.hpp"

#include <algorithm>
#include <deque>
#include <numeric>

#include "ppsim/gpu_backend/executor/backend_error.hpp"
#include "support/gpu_probe/grind.hpp"

namespace ppsim::test {
namespace {

/// A stream with its work.
struct Lane {
  Lane(const ProbeMachine& machine, const GpuDevice& device, int part, bool graphs)
      : stream(machine, device, part), grind(machine, stream) {
    work = grind;
    if (!graphs) return;
    graph = captured(machine, stream, grind);
    work = [this, &machine](GpuStream on) {
      check_cuda(machine.api.cuda, machine.api.cuda.graph_launch(graph.get(), on), "launching a graph");
    };
  }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  [[nodiscard]] Nanoseconds median_time() {
    std::vector<Nanoseconds> times;
    for (int i = 0; i < 5; ++i) times.push_back(stream.time_of(work));
    return median_of(times);
  }

  ProbeStream stream;
  Grind grind;
  GraphHandle graph;
  Work work;
};

}  // namespace

double PartitionTimes::concurrency() const {
  const auto work = std::accumulate(alone_ns.begin(), alone_ns.end(), Nanoseconds{0});
  return span_ns == 0 ? 0 : static_cast<double>(work) / static_cast<double>(span_ns);
}

PartitionTimes time_partitions(const ProbeMachine& machine, int parts, bool graphs) {
  const GpuDevice whole(machine.api.cuda, 0, 1);
  const GpuDevice divided(machine.api.cuda, 0, parts);
  PartitionTimes times{.multiprocessors = divided.multiprocessors_per_part()};
  times.whole_ns = Lane(machine, whole, 0, graphs).median_time();
  std::deque<Lane> lanes;
  for (int part = 0; part < parts; ++part) lanes.emplace_back(machine, divided, part, graphs);
  for (Lane& lane : lanes) times.alone_ns.push_back(lane.median_time());
  for (Lane& lane : lanes) lane.stream.enqueue(lane.work);
  for (Lane& lane : lanes) lane.stream.finish();
  for (const Lane& first : lanes) {
    times.together_ns.push_back(first.stream.time());
    for (const Lane& last : lanes)
      times.span_ns = std::max(times.span_ns, first.stream.time_to_end_of(last.stream));
  }
  return times;
}

std::vector<CallTime> time_calls(const ProbeMachine& machine, int parts) {
  constexpr int kCalls = 100;
  const CudaTable& cuda = machine.api.cuda;
  const GpuDevice device(cuda, 0, parts);
  ProbeStream stream(machine, device, 0);
  const auto memory = stream.device().allocate(1024, "a few numbers");
  const EventHandle event = stream.device().make_event(true);
  static_cast<void>(stream.time_of([&](GpuStream on) { stream.device().fill(on, memory, std::byte{0}); }));
  const cuda::Accumulate smallest{1, memory.data(), memory.data() + 512};
  const std::pair<const char*, std::function<int(GpuStream)>> calls[] = {
      {"kernel launch",
       [&](GpuStream on) { return machine.kernels.accumulate(on, cuda::Stored::bf16, smallest); }},
      {"event record", [&](GpuStream on) { return cuda.event_record(event.get(), on, kCudaEventDefault); }},
      {"wait for an event", [&](GpuStream on) { return cuda.stream_wait_event(on, event.get(), 0); }},
      {"write a number",
       [&](GpuStream on) { return cuda.stream_write_value(on, address_of(memory.data()), 1, 0); }},
      {"wait for a number",
       [&](GpuStream on) {
         return cuda.stream_wait_value(on, address_of(memory.data()), 1, kCudaWaitValueGeq);
       }},
      {"copy", [&](GpuStream on) {
         return cuda.copy_async(address_of(memory.data()) + 512, address_of(memory.data()), 256, on);
       }}};
  std::vector<CallTime> result;
  for (const auto& [name, call] : calls) {
    std::vector<Nanoseconds> times;
    static_cast<void>(stream.time_of([&, &one = call](GpuStream on) {
      for (int i = 0; i < kCalls; ++i) {
        const Nanoseconds begin = machine.api.clock.now();
        if (one(on) != 0) throw BackendError(ErrorCode::io, "a call that is timed fails");
        times.push_back(machine.api.clock.now() - begin);
      }
    }));
    result.push_back({name, median_of(times)});
  }
  return result;
}

}  // namespace ppsim::test
