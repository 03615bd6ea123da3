#pragma once

namespace ppsim::gpu_backend {

/// The CUDA that the kernels of this build are compiled with, 1000 * major + 10 * minor. Without kernels:
/// that which they are usually compiled with.
#if defined(PPSIM_KERNEL_CUDA)
inline constexpr int kKernelCuda = PPSIM_KERNEL_CUDA;
#else
inline constexpr int kKernelCuda = 13000;
#endif

/// Why a transformer does not run where there are none.
inline constexpr const char* kNoKernels =
    "this build has no kernels: it was made without nvcc, or with PPSIM_CUDA=OFF";

}  // namespace ppsim::gpu_backend
