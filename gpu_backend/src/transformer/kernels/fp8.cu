#include <cuda_fp8.h>

#include "fp8.hpp"
#include "launch.cuh"
#include "launchers.hpp"

namespace ppsim::gpu_backend::cuda {
namespace {

/// A block turns one tile, a pack of its columns or rows to a thread.
constexpr int kTile = 64;
constexpr int kOfPack = kPack<Bf16>;

template <bool wide>
__global__ void partial_largest_kernel(FindScale call) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x * kOfPack;
  float largest = 0;
  for (std::int64_t i = global_index() * kOfPack; i < call.count; i += step) {
    const auto pack = load_pack<wide, kOfPack>(static_cast<const Bf16*>(call.values), i, call.count);
    for (int n = 0; n < kOfPack; ++n) largest = fmaxf(largest, fabsf(to_float(pack.numbers[n])));
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

/// As many numbers of eight bits as a pack has of sixteen.
struct alignas(kOfPack) Codes {
  std::uint8_t numbers[kOfPack];
};
template <bool wide>
__device__ void store_codes(std::uint8_t* to, std::int64_t at, std::int64_t count, const Codes& codes) {
  if (wide && at + kOfPack <= count) {
    *reinterpret_cast<Codes*>(to + at) = codes;
    return;
  }
  for (int i = 0; i < kOfPack; ++i) {
    if (at + i < count) to[at + i] = codes.numbers[i];
  }
}

template <bool wide>
__global__ void quantize_kernel(Quantize call) {
  __shared__ std::uint8_t tile[kTile][kTile + 4];
  const auto across = static_cast<unsigned>((call.columns + kTile - 1) / kTile);
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x / across) * kTile;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x % across) * kTile;
  const int own = static_cast<int>(threadIdx.x) * kOfPack;
  const float scale = *call.scale;
  for (int y = threadIdx.y; y < kTile && row + y < call.rows; y += blockDim.y) {
    const Bf16* values = static_cast<const Bf16*>(call.values) + (row + y) * call.columns;
    const auto pack = load_pack<wide, kOfPack>(values, column + own, call.columns);
    Codes codes;
    for (int i = 0; i < kOfPack; ++i) {
      codes.numbers[i] = convert(to_float(pack.numbers[i]) / scale, call.type);
      tile[y][own + i] = codes.numbers[i];
    }
    if (call.by_rows != nullptr)
      store_codes<wide>(call.by_rows + (row + y) * call.columns, column + own, call.columns, codes);
  }
  if (call.by_columns == nullptr) return;
  __syncthreads();
  for (int y = threadIdx.y; y < kTile && column + y < call.columns; y += blockDim.y) {
    Codes codes;
    for (int i = 0; i < kOfPack; ++i) codes.numbers[i] = tile[own + i][y];
    store_codes<wide>(call.by_columns + (column + y) * call.rows, row + own, call.rows, codes);
  }
}

}  // namespace

int find_scale(void* stream, const FindScale& call) {
  by_width(is_wide<Bf16>(0, call.values), [&](auto wide) {
    launch(partial_largest_kernel<wide.value>, {partials_of(call.count), kThreads, stream}, call);
  });
  launch(scale_kernel, {1, kThreads, stream}, call);
  return launched();
}

int quantize(void* stream, const Quantize& call) {
  const unsigned tiles = blocks_for(call.rows, kTile) * blocks_for(call.columns, kTile);
  if (tiles == 0) return 0;
  constexpr int kAcross = kTile / kOfPack;
  const bool whole =
      call.rows % kOfPack == 0 && is_wide<Bf16>(call.columns, call.values, call.by_rows, call.by_columns);
  by_width(whole, [&](auto wide) {
    launch(quantize_kernel<wide.value>, {tiles, dim3(kAcross, kThreads / kAcross), stream}, call);
  });
  return launched();
}

}  // namespace ppsim::gpu_backend::cuda
