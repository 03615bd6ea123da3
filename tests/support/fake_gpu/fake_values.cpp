// Numbers in memory that streams write and wait for: a graph says with them how far it is.

#include <cstring>

#include "support/fake_gpu/answers.hpp"
#include "support/fake_gpu/fake_gpu.hpp"

namespace ppsim::test {

void FakeGpu::fill_values(CudaTable& cuda) {
  cuda.stream_write_value = [this](CUstream_st* handle, CudaAddress address, CudaValue value, unsigned int) {
    const Lock lock(mutex_);
    FakeStream* const on = stream(handle, "cuStreamWriteValue64");
    if (on == nullptr) return kInvalidHandle;
    const auto work = [=] { std::memcpy(memory_at(address), &value, sizeof value); };
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
                           .ready = ready,
                           .flag = address});
    return kCudaSuccess;
  };
}

}  // namespace ppsim::test
