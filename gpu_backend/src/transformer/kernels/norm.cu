#include "launch.cuh"
#include "launchers.hpp"

namespace ppsim::gpu_backend::cuda {
namespace {

template <class T, bool wide>
__global__ void norm_forward_kernel(NormForward call) {
  using Sum = typename Numbers<T>::Sum;
  constexpr int kCount = kPack<T>;
  const std::int64_t begin = blockIdx.x * call.columns;
  const T* x = static_cast<const T*>(call.x) + begin;
  const T* gain = static_cast<const T*>(call.gain);
  T* unit = static_cast<T*>(call.unit) + begin;
  T* result = static_cast<T*>(call.result) + begin;
  Sum squares{};
  for_packs<kCount>(call.columns, [&](std::int64_t c) {
    const auto pack = load_pack<wide, kCount>(x, c, call.columns);
    for (int i = 0; i < kCount; ++i) {
      const Sum value = Numbers<T>::load(pack.numbers[i]);
      squares += value * value;
    }
  });
  const Sum scale = norm_scale(block_sum(squares), call.columns);
  if (threadIdx.x == 0) static_cast<Sum*>(call.scale)[blockIdx.x] = scale;
  for_packs<kCount>(call.columns, [&](std::int64_t c) {
    auto pack = load_pack<wide, kCount>(x, c, call.columns);
    auto gained = load_pack<wide, kCount>(gain, c, call.columns);
    for (int i = 0; i < kCount; ++i) {
      pack.numbers[i] = Numbers<T>::store(Numbers<T>::load(pack.numbers[i]) * scale);
      gained.numbers[i] =
          Numbers<T>::store(Numbers<T>::load(pack.numbers[i]) * Numbers<T>::load(gained.numbers[i]));
    }
    store_pack<wide, kCount>(unit, c, call.columns, pack);
    store_pack<wide, kCount>(result, c, call.columns, gained);
  });
}

template <class T, bool wide>
__global__ void apply_gain_kernel(ApplyGain call) {
  constexpr int kCount = kPack<T>;
  const T* unit = static_cast<const T*>(call.unit) + blockIdx.x * call.columns;
  T* result = static_cast<T*>(call.result) + blockIdx.x * call.columns;
  for_packs<kCount>(call.columns, [&](std::int64_t c) {
    auto pack = load_pack<wide, kCount>(unit, c, call.columns);
    const auto gain = load_pack<wide, kCount>(static_cast<const T*>(call.gain), c, call.columns);
    for (int i = 0; i < kCount; ++i) {
      pack.numbers[i] =
          Numbers<T>::store(Numbers<T>::load(pack.numbers[i]) * Numbers<T>::load(gain.numbers[i]));
    }
    store_pack<wide, kCount>(result, c, call.columns, pack);
  });
}

template <class T, bool wide>
__global__ void norm_backward_kernel(NormBackward call) {
  using Sum = typename Numbers<T>::Sum;
  constexpr int kCount = kPack<T>;
  const std::int64_t begin = blockIdx.x * call.columns;
  const T* unit = static_cast<const T*>(call.unit) + begin;
  const T* gain = static_cast<const T*>(call.gain);
  const T* d_result = static_cast<const T*>(call.d_result) + begin;
  T* d_x = static_cast<T*>(call.d_x) + begin;
  const Sum scale = static_cast<const Sum*>(call.scale)[blockIdx.x];
  const auto gradient = [](T d, T by) { return Numbers<T>::load(d) * Numbers<T>::load(by); };
  Sum overlap{};
  for_packs<kCount>(call.columns, [&](std::int64_t c) {
    const auto d = load_pack<wide, kCount>(d_result, c, call.columns);
    const auto by = load_pack<wide, kCount>(gain, c, call.columns);
    const auto of = load_pack<wide, kCount>(unit, c, call.columns);
    for (int i = 0; i < kCount; ++i)
      overlap += gradient(d.numbers[i], by.numbers[i]) * Numbers<T>::load(of.numbers[i]);
  });
  const Sum mean_overlap = mean(block_sum(overlap), call.columns);
  for_packs<kCount>(call.columns, [&](std::int64_t c) {
    const auto d = load_pack<wide, kCount>(d_result, c, call.columns);
    const auto by = load_pack<wide, kCount>(gain, c, call.columns);
    const auto of = load_pack<wide, kCount>(unit, c, call.columns);
    auto result = load_pack<wide, kCount>(d_x, c, call.columns);
    for (int i = 0; i < kCount; ++i) {
      const Sum slope = norm_slope(gradient(d.numbers[i], by.numbers[i]), Numbers<T>::load(of.numbers[i]),
                                   scale, mean_overlap);
      result.numbers[i] = Numbers<T>::store(Numbers<T>::load(result.numbers[i]) + slope);
    }
    store_pack<wide, kCount>(d_x, c, call.columns, result);
  });
}

/// A block sums the columns of kGroups packs over the rows of a chunk, in lanes of rows that are joined in
/// order.
constexpr int kGroups = 32;
constexpr int kLanes = kThreads / kGroups;

template <class T, bool wide>
__global__ void gain_partials_kernel(NormBackward call) {
  using Sum = typename Numbers<T>::Sum;
  constexpr int kCount = kPack<T>;
  __shared__ Sum partial[kLanes][kGroups * kCount];
  const int lane = threadIdx.x / kGroups;
  const int first = static_cast<int>(threadIdx.x % kGroups) * kCount;
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * kGroups * kCount + first;
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.y) * kGainRows;
  const std::int64_t end = begin + kGainRows < call.rows ? begin + kGainRows : call.rows;
  Pack<Sum, kCount> sums{};
  for (std::int64_t r = begin + lane; r < end && c < call.columns; r += kLanes) {
    const std::int64_t row = r * call.columns;
    const auto d = load_pack<wide, kCount>(static_cast<const T*>(call.d_result) + row, c, call.columns);
    const auto unit = load_pack<wide, kCount>(static_cast<const T*>(call.unit) + row, c, call.columns);
    for (int i = 0; i < kCount; ++i)
      sums.numbers[i] += Numbers<T>::load(d.numbers[i]) * Numbers<T>::load(unit.numbers[i]);
  }
  for (int i = 0; i < kCount; ++i) partial[lane][first + i] = sums.numbers[i];
  __syncthreads();
  if (lane != 0 || c >= call.columns) return;
  for (int other = 1; other < kLanes; ++other) {
    for (int i = 0; i < kCount; ++i) sums.numbers[i] += partial[other][first + i];
  }
  store_pack<wide, kCount>(static_cast<Sum*>(call.partial) + blockIdx.y * call.columns, c, call.columns,
                           sums);
}

template <class Sum>
__global__ void gain_gradient_kernel(NormBackward call) {
  const std::int64_t c = global_index();
  if (c >= call.columns) return;
  const Sum* partial = static_cast<const Sum*>(call.partial) + c;
  Sum sum{};
  for (std::int64_t chunk = 0; chunk < gain_chunks(call.rows); ++chunk) sum += partial[chunk * call.columns];
  static_cast<Sum*>(call.d_gain)[c] = sum;
}

}  // namespace

int norm_forward(void* stream, Stored stored, const NormForward& call) {
  return by_type(stored, [&](auto zero) {
    using T = decltype(zero);
    by_width(is_wide<T>(call.columns, call.x, call.gain, call.unit, call.result), [&](auto wide) {
      launch(norm_forward_kernel<T, wide.value>, {blocks_for(call.rows, 1), kThreads, stream}, call);
    });
  });
}

int apply_gain(void* stream, Stored stored, const ApplyGain& call) {
  return by_type(stored, [&](auto zero) {
    using T = decltype(zero);
    by_width(is_wide<T>(call.columns, call.unit, call.gain, call.result), [&](auto wide) {
      launch(apply_gain_kernel<T, wide.value>,
             {blocks_for(call.rows, 1), threads_for_row<T>(call.columns), stream}, call);
    });
  });
}

int norm_backward(void* stream, Stored stored, const NormBackward& call) {
  return by_type(stored, [&](auto zero) {
    using T = decltype(zero);
    const bool all = is_wide<T>(call.columns, call.unit, call.gain, call.d_result, call.d_x, call.partial);
    by_width(all, [&](auto wide) {
      const dim3 chunks(blocks_for(call.columns, kGroups * kPack<T>),
                        static_cast<unsigned>(gain_chunks(call.rows)));
      launch(gain_partials_kernel<T, wide.value>, {chunks, kThreads, stream}, call);
      launch(gain_gradient_kernel<typename Numbers<T>::Sum>, {blocks_for(call.columns), kThreads, stream},
             call);
      launch(norm_backward_kernel<T, wide.value>, {blocks_for(call.rows, 1), kThreads, stream}, call);
    });
  });
}

}  // namespace ppsim::gpu_backend::cuda
