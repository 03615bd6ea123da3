#include "support/emulated_cuda/kernels.hpp"

#include "support/emulated_cuda/cuda_fp8.h"
#include "support/emulated_cuda/cuda_runtime.h"
#include "transformer/kernels/fp8.hpp"
#include "transformer/kernels/numbers.hpp"

#pragma GCC diagnostic ignored "-Wsign-compare"  // as nvcc has it: threadIdx is without a sign

// Beside the same kernels of the device, which a build with CUDA links.
namespace emulated {
namespace ppsim::gpu_backend::cuda {
using namespace ::ppsim::gpu_backend::cuda;
}
#include "transformer/kernels/attention.cu"
#include "transformer/kernels/ends.cu"
#include "transformer/kernels/fp8.cu"
#include "transformer/kernels/norm.cu"
#include "transformer/kernels/update.cu"
#include "transformer/kernels/vocabulary.cu"
}  // namespace emulated

namespace ppsim::test {

using namespace gpu_backend;

cuda::KernelTable emulated_kernels() { return ::emulated::ppsim::gpu_backend::cuda::compiled_kernels(); }

}  // namespace ppsim::test
