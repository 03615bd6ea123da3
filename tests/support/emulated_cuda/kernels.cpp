#include "support/emulated_cuda/kernels.hpp"

#include "cuda/kernels/fp8.hpp"
#include "cuda/kernels/numbers.hpp"
#include "support/emulated_cuda/cuda_fp8.h"
#include "support/emulated_cuda/cuda_runtime.h"

#pragma GCC diagnostic ignored "-Wsign-compare"  // as nvcc has it: threadIdx is without a sign

// Beside the same kernels of the device, which a build with CUDA links.
namespace emulated {
namespace ppsim::cuda {
using namespace ::ppsim::cuda;
}
#include "cuda/kernels/attention.cu"
#include "cuda/kernels/ends.cu"
#include "cuda/kernels/fp8.cu"
#include "cuda/kernels/norm.cu"
#include "cuda/kernels/update.cu"
#include "cuda/kernels/vocabulary.cu"
}  // namespace emulated

namespace ppsim::test {

cuda::KernelTable emulated_kernels() { return ::emulated::ppsim::cuda::compiled_kernels(); }

}  // namespace ppsim::test
