#pragma once

// In place of CUDA's header of this name: what the kernels use of the language and of the runtime, for a
// compiler that knows neither. Every thread of a block is a fiber of one thread of the processor.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#define __device__
#define __host__
#define __global__
#define __launch_bounds__(...)
/// The blocks of a kernel take turns, so that one copy does.
#define __shared__ static thread_local

struct dim3 {
  // NOLINTNEXTLINE(google-explicit-constructor): as CUDA's
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  unsigned x, y, z;
};
using cudaStream_t = void*;
using std::max;

inline constinit thread_local dim3 gridDim, blockDim, blockIdx, threadIdx;

namespace ppsim::test {
/// One block after the other, in an order of its own; the threads of a block take turns at every barrier, in
/// an order that is drawn anew. Returns the runtime's error code: 9 for a shape that no device takes.
/// Requires: the threads of a block come to the same barriers.
int run_blocks(dim3 grid, dim3 block, void (*kernel)(void* call), void* call);
void wait_for_block();
/// The first error since it was last asked for, of this thread.
int take_launch_error();
}  // namespace ppsim::test

inline void __syncthreads() { ppsim::test::wait_for_block(); }
inline int cudaGetLastError() { return ppsim::test::take_launch_error(); }
template <class Call>
int cudaLaunchKernel(void (*kernel)(Call), dim3 grid, dim3 block, void** arguments, std::size_t,
                     cudaStream_t) {
  struct Bound {
    void (*kernel)(Call);
    Call call;
  } bound{kernel, *static_cast<Call*>(*arguments)};
  const auto thread = [](void* of) { static_cast<Bound*>(of)->kernel(static_cast<Bound*>(of)->call); };
  return ppsim::test::run_blocks(grid, block, thread, &bound);
}
