#include "support/gpu_probe/partition_times.hpp"

#include <algorithm>
#include <deque>
#include <numeric>

#include "ppsim/gpu_backend/device.hpp"

namespace ppsim::test {
namespace {

using Work = std::function<void(GpuStream)>;

/// Work that needs multiprocessors and little else: products of whole numbers that stay in the cache.
class Grind {
 public:
  Grind(const ProbeMachine& machine, ProbeStream& stream) : machine_(machine) {
    const auto memory =
        stream.device().allocate(3 * kSize * kSize * static_cast<Bytes>(sizeof(std::uint64_t)), "numbers");
    numbers_ = reinterpret_cast<std::uint64_t*>(memory.data());
    static_cast<void>(stream.time_of([&](GpuStream on) { stream.device().fill(on, memory, std::byte{1}); }));
  }
  void operator()(GpuStream stream) const {
    const cuda::RingProduct call{.rows = kSize,
                                 .columns = kSize,
                                 .inner = kSize,
                                 .batches = 1,
                                 .a = numbers_,
                                 .a_row = kSize,
                                 .a_inner = 1,
                                 .b = numbers_ + kSize * kSize,
                                 .b_inner = kSize,
                                 .b_column = 1,
                                 .c = numbers_ + 2 * kSize * kSize,
                                 .c_row = kSize};
    for (int i = 0; i < kRepeats; ++i) {
      if (machine_.kernels.ring_product(stream, call) != 0)
        throw BackendError(ErrorCode::io, "a kernel could not be launched");
    }
  }

 private:
  static constexpr std::int64_t kSize = 512;
  static constexpr int kRepeats = 8;
  const ProbeMachine& machine_;
  std::uint64_t* numbers_ = nullptr;
};

/// Work as a graph of its own.
GraphHandle captured(const ProbeMachine& machine, ProbeStream& stream, const Work& work) {
  const CudaTable& cuda = machine.api.cuda;
  stream.device().make_current();
  check_cuda(cuda, cuda.capture_begin(stream.get(), kCudaCaptureThreadLocal), "beginning a capture");
  work(stream.get());
  CUgraph_st* made = nullptr;
  check_cuda(cuda, cuda.capture_end(stream.get(), &made), "ending a capture");
  const GpuHandle<CUgraph_st> graph(made, [&cuda](CUgraph_st* g) { cuda.graph_destroy(g); });
  CUgraphExec_st* executable = nullptr;
  check_cuda(cuda, cuda.graph_instantiate(&executable, graph.get(), 0), "instantiating a graph");
  return {executable, [&cuda](CUgraphExec_st* g) { cuda.graph_executable_destroy(g); }};
}

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

WaitingStreams run_beside_waiting(const ProbeMachine& machine, int parts, int waiting) {
  constexpr Nanoseconds kPatience = 2'000'000'000;
  const CudaTable& cuda = machine.api.cuda;
  const GpuDevice device(cuda, 0, parts);
  std::deque<Lane> lanes;
  for (int part = 0; part < parts; ++part) lanes.emplace_back(machine, device, part, false);
  std::deque<ProbeStream> waits;
  for (int i = 0; i < waiting; ++i) waits.emplace_back(machine, device, i % parts);
  // In the host's memory: the number can be written whatever the device's queues wait for.
  const auto number = lanes.front().stream.device().allocate_host(sizeof(CudaValue));
  auto* const value = reinterpret_cast<volatile CudaValue*>(number.data());
  lanes.front().stream.enqueue(
      [&](GpuStream on) { lanes.front().stream.device().fill(on, number, std::byte{0}); });
  lanes.front().stream.finish();
  for (ProbeStream& one : waits) {
    one.enqueue([&](GpuStream on) {
      check_cuda(cuda, cuda.stream_wait_value(on, address_of(number.data()), 1, kCudaWaitValueGeq),
                 "waiting for a number");
    });
  }
  WaitingStreams result{.waiting = waiting, .kernels_run = true, .all_released = true};
  for (Lane& lane : lanes) lane.stream.enqueue(lane.work);
  for (const Lane& lane : lanes)
    result.kernels_run = lane.stream.finishes_within(kPatience) && result.kernels_run;
  *value = 1;
  lanes.front().stream.enqueue([&](GpuStream on) {
    check_cuda(cuda, cuda.stream_write_value(on, address_of(number.data()), 1, 0), "writing a number");
  });
  for (const ProbeStream& one : waits)
    result.all_released = one.finishes_within(kPatience) && result.all_released;
  for (const Lane& lane : lanes) lane.stream.finish();
  return result;
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
