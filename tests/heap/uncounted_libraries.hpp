#pragma once

#include <functional>
#include <vector>

#include "device/cuda/cublaslt_table.hpp"
#include "device/cuda/cudnn_table.hpp"
#include "device/cuda/gpu_api.hpp"
#include "heap/heap_requests.hpp"
#include "transformer/kernels/kernel_table.hpp"

namespace ppsim::test {

using namespace gpu_backend;

/// The same call, whose own requests are not counted: on a machine it is a library's.
template <class Result, class... Arguments>
void leave_out(std::function<Result(Arguments...)>& call) {
  call = [real = std::move(call)](Arguments... arguments) {
    const NotCounted library;
    return real(arguments...);
  };
}

#define PPSIM_CALL(name, symbol, result, parameters) leave_out(table.name);
inline void leave_out(CudaTable& table) {
#include "device/cuda/cuda_table.def"
}
inline void leave_out(NcclTable& table) {
#include "transport/nccl/nccl_table.def"
}
inline void leave_out(CublasLtTable& table) {
#include "device/cuda/cublaslt_table.def"
}
inline void leave_out(CudnnTable& table) {
#include "device/cuda/cudnn_table.def"
}
#undef PPSIM_CALL

inline void leave_out(cuda::KernelTable& table) {
#define PPSIM_CALL(name, type) leave_out(table.name);
#include "transformer/kernels/kernel_table.def"
#undef PPSIM_CALL
}

}  // namespace ppsim::test
