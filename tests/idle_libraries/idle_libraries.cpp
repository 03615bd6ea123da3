// A CUDA driver with two devices, and an NCCL: every call succeeds and does nothing. For what a program does
// before it touches a device.

#include "device/cuda/cuda_table.hpp"
#include "transport/nccl/nccl_table.hpp"

namespace {

template <class Result>
Result nothing() {
  return Result();
}

}  // namespace

// Named otherwise here, because it is the one that does something.
#define cuDeviceGetCount idle_device_count
#define PPSIM_CALL(name, symbol, result, parameters) \
  extern "C" result symbol parameters { return nothing<result>(); }
namespace ppsim {

using namespace gpu_backend;
#include "device/cuda/cuda_table.def"
#include "transport/nccl/nccl_table.def"
}  // namespace ppsim
#undef PPSIM_CALL
#undef cuDeviceGetCount

extern "C" int cuDeviceGetCount(int* count) {
  *count = 2;
  return ppsim::kCudaSuccess;
}
