#pragma once

namespace ppsim::gpu_backend {

/// The CUDA that the kernels of this build are compiled with, 1000 * major + 10 * minor. Without kernels:
/// that which they are usually compiled with.
#if defined(PPSIM_KERNEL_CUDA)
inline constexpr int kKernelCuda = PPSIM_KERNEL_CUDA;
#else
inline constexpr int kKernelCuda = 13000;
#endif

}  // namespace ppsim::gpu_backend
