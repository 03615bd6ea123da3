// Numbers in memory that streams write and wait for, as the copy transport says with them what is there.

#include <algorithm>
#include <cstring>

#include "support/fake_gpu/fake_gpu.hpp"

namespace ppsim::test {
namespace {

constexpr int kInvalidHandle = 400;

std::byte* memory_at(CudaAddress address) { return reinterpret_cast<std::byte*>(address); }

bool receives(const Action& action) { return is_transfer(action.kind) && !is_send(action.kind); }

EndActions nth(const EndActions& actions, std::size_t n) {
  if (actions.size() < 2) return actions;
  return n < actions.size() ? EndActions{actions[n]} : EndActions();
}

}  // namespace

/// Within a group the receives say first that their memory is free, then the sends that they have copied.
EndActions FakeGpu::next_write() {
  EndActions actions = ends_.actions(mark());
  std::stable_partition(actions.begin(), actions.end(), receives);
  return nth(actions, numbers_[std::this_thread::get_id()].writes++);
}

/// The members of a group wait in order. A receive may wait for the last message of its channel in the group,
/// and stands for all of them.
EndActions FakeGpu::next_wait() {
  EndActions actions = ends_.actions(mark());
  EndActions member = nth(actions, numbers_[std::this_thread::get_id()].waits++);
  if (member.empty() || !receives(member.front())) return member;
  std::erase_if(actions, [](const Action& action) { return !receives(action); });
  return actions;
}

void FakeGpu::check_number(CudaAddress address, CudaValue value, const EndActions& waiter) {
  const auto writer = writers_.find({address, value});
  if (writer == writers_.end() || Ends::meet(waiter, writer->second)) return;
  faults_.add(FaultKind::mismatched_ends,
              ends_.text(waiter) + " meets " + ends_.text(writer->second) + " by a number in memory");
}

void FakeGpu::fill_values(CudaTable& cuda) {
  cuda.stream_write_value = [this](CUstream_st* handle, CudaAddress address, CudaValue value, unsigned int) {
    const Lock lock(mutex_);
    FakeStream* const on = stream(handle, "cuStreamWriteValue64");
    if (on == nullptr) return kInvalidHandle;
    const auto work = [=, this, writer = next_write()] {
      std::memcpy(memory_at(address), &value, sizeof value);
      if (!writer.empty()) writers_[{address, value}] = writer;
    };
    machine_.enqueue(*on,
                     {.name = mark() + " writes a number on " + on->name, .work = work, .flag = address});
    return kCudaSuccess;
  };
  cuda.stream_wait_value = [this](CUstream_st* handle, CudaAddress address, CudaValue value, unsigned int) {
    const Lock lock(mutex_);
    FakeStream* const on = stream(handle, "cuStreamWaitValue64");
    if (on == nullptr) return kInvalidHandle;
    const auto ready = [=] {
      CudaValue current = 0;
      std::memcpy(&current, memory_at(address), sizeof current);
      return static_cast<std::int64_t>(current - value) >= 0;
    };
    machine_.enqueue(*on, {.name = mark() + " waits for a number on " + on->name,
                           .kind = TaskKind::value_wait,
                           .work = [=, this, waiter = next_wait()] { check_number(address, value, waiter); },
                           .ready = ready,
                           .flag = address});
    return kCudaSuccess;
  };
}

}  // namespace ppsim::test
