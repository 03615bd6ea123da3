#pragma once

#include <cstdint>

#include "stage_kernels.hpp"

namespace ppsim::gpu_backend::cuda {

/// Requires: references that outlive it.
struct DrawMeans {
  const KernelTable& kernels;
  const CudaTable& cuda;
  const Dimensions& d;
  std::uint64_t seed;
  GpuStream stream;
};

/// Parameters as they are before the first step, those of the CPU: pieces of a model draw from streams of
/// their own, whatever stage they are on, and a token's from its place in one.
template <class T>
void draw_first_parameters(const DrawMeans& means, const StageRole& role,
                           const transformer::StageWeights<T>& weights);

}  // namespace ppsim::gpu_backend::cuda
