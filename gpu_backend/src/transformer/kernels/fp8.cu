#include <cuda_fp8.h>

#include "fp8.hpp"
#include "launch.cuh"
#include "launchers.hpp"

namespace ppsim::gpu_backend::cuda {
namespace {

constexpr int kTile = 32;

__global__ void partial_largest_kernel(FindScale call) {
  float largest = 0;
  for (std::int64_t i = global_index(); i < call.count; i += std::int64_t{gridDim.x} * blockDim.x) {
    largest = fmaxf(largest, fabsf(to_float(static_cast<const Bf16*>(call.values)[i])));
  }
  largest = block_max(largest);
  if (threadIdx.x == 0) call.partial[blockIdx.x] = largest;
}

__global__ void scale_kernel(FindScale call) {
  float largest = 0;
  for (unsigned i = threadIdx.x; i < partials_of(call.count); i += blockDim.x)
    largest = fmaxf(largest, call.partial[i]);
  largest = block_max(largest);
  if (threadIdx.x == 0) *call.scale = fp8_scale(largest, call.type);
}

/// The processor's own conversion, which to_fp8 is equal to bit by bit.
__device__ std::uint8_t convert(float value, Fp8 type) {
  return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, type == Fp8::e4m3 ? __NV_E4M3 : __NV_E5M2);
}

/// A block turns one tile, so that both sides are accessed by rows.
__global__ void quantize_kernel(Quantize call) {
  __shared__ std::uint8_t tile[kTile][kTile + 1];
  const std::int64_t across = (call.columns + kTile - 1) / kTile;
  const std::int64_t row = blockIdx.x / across * kTile;
  const std::int64_t column = blockIdx.x % across * kTile;
  const float scale = *call.scale;
  for (int y = threadIdx.y; y < kTile; y += blockDim.y) {
    const std::int64_t r = row + y;
    const std::int64_t c = column + threadIdx.x;
    if (r >= call.rows || c >= call.columns) continue;
    const float value = to_float(static_cast<const Bf16*>(call.values)[r * call.columns + c]);
    const std::uint8_t code = convert(value / scale, call.type);
    if (call.transpose) {
      tile[y][threadIdx.x] = code;
    } else {
      call.result[r * call.columns + c] = code;
    }
  }
  if (!call.transpose) return;
  __syncthreads();
  for (int y = threadIdx.y; y < kTile; y += blockDim.y) {
    const std::int64_t r = row + threadIdx.x;
    const std::int64_t c = column + y;
    if (r < call.rows && c < call.columns) call.result[c * call.rows + r] = tile[threadIdx.x][y];
  }
}

}  // namespace

int find_scale(void* stream, const FindScale& call) {
  launch(partial_largest_kernel, {partials_of(call.count), kThreads, stream}, call);
  launch(scale_kernel, {1, kThreads, stream}, call);
  return launched();
}

int quantize(void* stream, const Quantize& call) {
  const unsigned tiles = blocks_for(call.rows, kTile) * blocks_for(call.columns, kTile);
  if (tiles == 0) return 0;
  launch(quantize_kernel, {tiles, dim3(kTile, kThreads / kTile), stream}, call);
  return launched();
}

}  // namespace ppsim::gpu_backend::cuda
