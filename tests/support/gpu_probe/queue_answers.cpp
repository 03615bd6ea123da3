#include "support/gpu_probe/queue_answers.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <thread>
#include <vector>

#include "ppsim/gpu_backend/executor/backend_error.hpp"
#include "support/gpu_probe/grind.hpp"

namespace ppsim::test {
namespace {

constexpr Nanoseconds kQueueTimeout = 2'000'000'000;

/// Numbers that the host reads and writes whatever the queues of the device are full of.
class HostNumbers {
 public:
  HostNumbers(ProbeStream& stream, std::size_t count)
      : memory_(stream.device().allocate_host(static_cast<Bytes>(count * sizeof(CudaValue)))) {
    for (std::size_t i = 0; i < count; ++i) set(i, 0);
  }
  void set(std::size_t i, CudaValue value) const { std::atomic_ref(at(i)).store(value); }
  [[nodiscard]] CudaValue get(std::size_t i) const { return std::atomic_ref(at(i)).load(); }
  [[nodiscard]] CudaAddress address(std::size_t i) const { return address_of(&at(i)); }

 private:
  [[nodiscard]] CudaValue& at(std::size_t i) const { return reinterpret_cast<CudaValue*>(memory_.data())[i]; }
  std::span<std::byte> memory_;
};

void wait_for(const CudaTable& cuda, GpuStream on, CudaAddress number) {
  check_cuda(cuda, cuda.stream_wait_value(on, number, 1, kCudaWaitValueGeq), "waiting for a number");
}

template <class Done>
bool within(const HostClock& clock, Nanoseconds time, const Done& done) {
  const Nanoseconds give_up = clock.now() + time;
  while (!done()) {
    if (clock.now() >= give_up) return false;
    clock.pause();
  }
  return true;
}

/// A part with its work, and streams of it that wait.
struct BusyPart {
  BusyPart(const ProbeMachine& machine, const GpuDevice& device, int part)
      : stream(machine, device, part), grind(machine, stream) {}
  ProbeStream stream;
  Grind grind;
  std::deque<ProbeStream> waits;
  GraphHandle graph;
};

/// The work and the waits as branches of a graph. The work says by a number that it is done.
void capture_branches(const ProbeMachine& machine, BusyPart& part, CudaAddress number, CudaAddress done) {
  const CudaTable& cuda = machine.api.cuda;
  RankDevice& device = part.stream.device();
  const EventHandle fork = device.make_event(false);
  std::vector<EventHandle> joins;
  for (std::size_t i = 0; i < part.waits.size(); ++i) joins.push_back(device.make_event(false));
  part.graph = captured(machine, part.stream, [&](GpuStream on) {
    device.record(fork.get(), on);
    for (std::size_t i = 0; i < joins.size(); ++i) {
      const GpuStream branch = part.waits[i].get();
      device.wait(branch, fork.get());
      wait_for(cuda, branch, number);
      device.record(joins[i].get(), branch);
    }
    part.grind(on);
    check_cuda(cuda, cuda.stream_write_value(on, done, 1, 0), "writing a number");
    for (const EventHandle& join : joins) device.wait(on, join.get());
  });
}

std::deque<BusyPart> busy_parts(const ProbeMachine& machine, const GpuDevice& device, int parts,
                                int waiting) {
  std::deque<BusyPart> made;
  for (int part = 0; part < parts; ++part) made.emplace_back(machine, device, part);
  for (int i = 0; i < waiting; ++i) {
    made[static_cast<std::size_t>(i % parts)].waits.emplace_back(machine, device, i % parts);
  }
  return made;
}

}  // namespace

WaitingStreams run_beside_waiting(const ProbeMachine& machine, int parts, int waiting, bool graphs) {
  const CudaTable& cuda = machine.api.cuda;
  const HostClock& clock = machine.api.clock;
  const GpuDevice device(cuda, 0, parts);
  std::deque<BusyPart> busy = busy_parts(machine, device, parts, waiting);
  const HostNumbers numbers(busy.front().stream, 1 + busy.size());
  if (graphs) {
    for (std::size_t p = 0; p < busy.size(); ++p)
      capture_branches(machine, busy[p], numbers.address(0), numbers.address(1 + p));
    for (BusyPart& part : busy) {
      part.stream.enqueue([&](GpuStream on) {
        check_cuda(cuda, cuda.graph_launch(part.graph.get(), on), "launching a graph");
      });
    }
  } else {
    for (BusyPart& part : busy) {
      for (ProbeStream& one : part.waits)
        one.enqueue([&](GpuStream on) { wait_for(cuda, on, numbers.address(0)); });
    }
    for (std::size_t p = 0; p < busy.size(); ++p) {
      busy[p].stream.enqueue([&](GpuStream on) {
        busy[p].grind(on);
        check_cuda(cuda, cuda.stream_write_value(on, numbers.address(1 + p), 1, 0), "writing a number");
      });
    }
  }
  WaitingStreams result{.waiting = waiting, .kernels_run = true, .all_released = true};
  for (std::size_t p = 0; p < busy.size(); ++p) {
    const auto done = [&] { return numbers.get(1 + p) == 1; };
    result.kernels_run = within(clock, kQueueTimeout, done) && result.kernels_run;
  }
  numbers.set(0, 1);
  for (const BusyPart& part : busy) {
    result.all_released = part.stream.finishes_within(kQueueTimeout) && result.all_released;
    if (graphs) continue;
    for (const ProbeStream& one : part.waits)
      result.all_released = one.finishes_within(kQueueTimeout) && result.all_released;
  }
  return result;
}

FullQueue fill_queue(const ProbeMachine& machine, int parts) {
  constexpr int kLaunches = 4000;
  constexpr std::chrono::milliseconds kStill(500);
  const CudaTable& cuda = machine.api.cuda;
  const GpuDevice device(cuda, 0, parts);
  ProbeStream full(machine, device, 0);
  ProbeStream other(machine, device, 1);
  const Grind grind(machine, other);
  const HostNumbers number(full, 1);
  const auto memory = full.device().allocate(1024, "a few numbers");
  static_cast<void>(full.time_of([&](GpuStream on) { full.device().fill(on, memory, std::byte{0}); }));
  const cuda::Accumulate smallest{1, memory.data(), memory.data() + 512};
  const auto launch = [&](GpuStream on) {
    return machine.kernels.accumulate(on, cuda::Stored::bf16, smallest) == 0;
  };
  static_cast<void>(full.time_of([&](GpuStream on) { static_cast<void>(launch(on)); }));

  FullQueue result{.launches = kLaunches};
  std::atomic<int> launched = 0;
  std::atomic<bool> filled = false;
  std::atomic<bool> ran = false;
  std::jthread filling([&] {
    full.enqueue([&](GpuStream on) {
      wait_for(cuda, on, number.address(0));
      while (launched < kLaunches && launch(on)) ++launched;
    });
    filled = true;
  });
  for (int before = -1; !filled && before != launched;) {
    before = launched;
    std::this_thread::sleep_for(kStill);
  }
  result.held_after = launched;
  {
    std::jthread working([&] {
      other.enqueue(grind);
      ran = other.finishes_within(kQueueTimeout);
    });
    std::this_thread::sleep_for(std::chrono::nanoseconds(filled ? 0 : kQueueTimeout));
    if (!filled) result.others_run = ran;
    number.set(0, 1);
  }
  filling.join();
  if (result.held_after == kLaunches) result.others_run = ran;
  result.released = full.finishes_within(kQueueTimeout);
  return result;
}

CopyTimes time_copies(const ProbeMachine& machine, int parts) {
  constexpr Bytes kBytes = Bytes{16} << 20;
  const GpuDevice whole(machine.api.cuda, 0, 1);
  const GpuDevice divided(machine.api.cuda, 0, parts);
  ProbeStream undivided(machine, whole, 0);
  ProbeStream copies(machine, divided, 0);
  ProbeStream works(machine, divided, 0);
  const Grind grind(machine, works);
  const auto from = copies.device().allocate(kBytes, "what is copied");
  const auto to = copies.device().allocate(kBytes, "a copy");
  static_cast<void>(copies.time_of([&](GpuStream on) {
    for (const auto memory : {from, to}) copies.device().fill(on, memory, std::byte{1});
  }));
  const auto copy = [&](GpuStream on) { copies.device().copy(on, to, from); };
  const auto median_alone = [](ProbeStream& stream, const Work& work) {
    std::vector<Nanoseconds> times;
    for (int i = 0; i < 5; ++i) times.push_back(stream.time_of(work));
    return median_of(times);
  };
  CopyTimes result{.bytes = kBytes};
  result.whole_ns = median_alone(undivided, copy);
  result.copy_ns = median_alone(copies, copy);
  result.work_ns = median_alone(works, grind);
  // As many copies as take about as long as the work.
  const auto count =
      std::clamp<Nanoseconds>(result.work_ns / std::max<Nanoseconds>(result.copy_ns, 1), 1, 1000);
  std::vector<Nanoseconds> of_work;
  std::vector<Nanoseconds> of_copies;
  for (int i = 0; i < 5; ++i) {
    copies.enqueue([&](GpuStream on) {
      for (Nanoseconds n = 0; n < count; ++n) copy(on);
    });
    works.enqueue(grind);
    works.finish();
    copies.finish();
    of_work.push_back(works.time());
    of_copies.push_back(copies.time() / count);
  }
  result.work_beside_ns = median_of(of_work);
  result.copy_beside_ns = median_of(of_copies);
  return result;
}

}  // namespace ppsim::test
