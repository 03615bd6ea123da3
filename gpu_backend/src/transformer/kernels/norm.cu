#include "launch.cuh"
#include "launchers.hpp"

namespace ppsim::gpu_backend::cuda {
namespace {

/// The results of a norm for a pack of x.
template <class T>
struct NormedPack {
  Pack<T, kPack<T>> unit, result;
};
template <class T>
__device__ NormedPack<T> normed(const Held<T>& x, const Held<T>& gain, typename Numbers<T>::Sum scale) {
  NormedPack<T> pack;
  for (int i = 0; i < kPack<T>; ++i) {
    pack.unit.numbers[i] = Numbers<T>::store(x.number(i) * scale);
    pack.result.numbers[i] = Numbers<T>::store(Numbers<T>::load(pack.unit.numbers[i]) * gain.number(i));
  }
  return pack;
}
template <class T>
__device__ typename Numbers<T>::Sum squares_of(const Held<T>& x, typename Numbers<T>::Sum before) {
  for (int i = 0; i < kPack<T>; ++i) before += x.number(i) * x.number(i);
  return before;
}

/// A block has as many rows as its threads hold: they are read once.
template <class T, bool wide, int kPacks>
__global__ void norm_forward_kernel(NormForward call) {
  using Sum = typename Numbers<T>::Sum;
  constexpr int kRows = kHeldPacks / kPacks;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kRows;
  const auto behind = [&](int r) { return first + r < call.rows ? call.columns : 0; };
  Held<T> x[kRows][kPacks];
  PPSIM_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const T* row = static_cast<const T*>(call.x) + (first + r) * call.columns;
    PPSIM_UNROLL
    for (int p = 0; p < kPacks; ++p) x[r][p] = hold<wide>(row, column_of<T>(p), behind(r));
  }
  Pack<Sum, kRows> squares{};
  PPSIM_UNROLL
  for (int r = 0; r < kRows; ++r) {
    PPSIM_UNROLL
    for (int p = 0; p < kPacks; ++p) squares.numbers[r] = squares_of(x[r][p], squares.numbers[r]);
  }
  squares = block_sum(squares);
  PPSIM_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const std::int64_t begin = (first + r) * call.columns;
    const Sum scale = norm_scale(squares.numbers[r], call.columns);
    if (threadIdx.x == 0 && behind(r) > 0) static_cast<Sum*>(call.scale)[first + r] = scale;
    PPSIM_UNROLL
    for (int p = 0; p < kPacks; ++p) {
      const std::int64_t c = column_of<T>(p);
      const auto pack = normed(x[r][p], hold<wide>(static_cast<const T*>(call.gain), c, call.columns), scale);
      store_of_row<wide>(static_cast<T*>(call.unit) + begin, c, behind(r), pack.unit);
      store_of_row<wide>(static_cast<T*>(call.result) + begin, c, behind(r), pack.result);
    }
  }
}

/// The same of a row that is longer than the threads of a block hold: it is read twice.
template <class T, bool wide>
__global__ void long_norm_forward_kernel(NormForward call) {
  using Sum = typename Numbers<T>::Sum;
  const std::int64_t begin = blockIdx.x * call.columns;
  const T* x = static_cast<const T*>(call.x) + begin;
  Sum squares{};
  for_packs<kPack<T>>(call.columns,
                      [&](std::int64_t c) { squares = squares_of(hold<wide>(x, c, call.columns), squares); });
  const Sum scale = norm_scale(block_sum(squares), call.columns);
  if (threadIdx.x == 0) static_cast<Sum*>(call.scale)[blockIdx.x] = scale;
  for_packs<kPack<T>>(call.columns, [&](std::int64_t c) {
    const auto pack = normed(hold<wide>(x, c, call.columns),
                             hold<wide>(static_cast<const T*>(call.gain), c, call.columns), scale);
    store_of_row<wide>(static_cast<T*>(call.unit) + begin, c, call.columns, pack.unit);
    store_of_row<wide>(static_cast<T*>(call.result) + begin, c, call.columns, pack.result);
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

/// The inputs of backward for a pack, and for its row.
template <class T>
struct BackwardPack {
  Held<T> d_result, unit, residual;

  /// The row's sum of gradient times unit, with what came before.
  [[nodiscard]] __device__ typename Numbers<T>::Sum overlap(const Held<T>& gain,
                                                            typename Numbers<T>::Sum before) const {
    for (int i = 0; i < kPack<T>; ++i) before += d_result.number(i) * gain.number(i) * unit.number(i);
    return before;
  }
  __device__ void unpack_again() {
    d_result.unpack_again();
    unit.unpack_again();
  }
};
template <class Sum>
struct BackwardRow {
  Sum scale, mean_overlap;
};

template <class T, bool wide>
__device__ BackwardPack<T> hold_backward(const NormBackward& call, std::int64_t begin, std::int64_t c,
                                         std::int64_t columns) {
  const auto held = [&](const void* of) { return hold<wide>(static_cast<const T*>(of) + begin, c, columns); };
  return {held(call.d_result), held(call.unit), call.residual == nullptr ? Held<T>{} : held(call.residual)};
}

/// The gradient of x; that of the gain is added to.
template <class T>
__device__ Pack<T, kPack<T>> backward_of(const BackwardPack<T>& pack, const Held<T>& gain,
                                         const BackwardRow<typename Numbers<T>::Sum>& row,
                                         Pack<typename Numbers<T>::Sum, kPack<T>>& d_gain) {
  Pack<T, kPack<T>> d_x;
  for (int i = 0; i < kPack<T>; ++i) {
    const auto d = pack.d_result.number(i);
    const auto unit = pack.unit.number(i);
    d_x.numbers[i] = Numbers<T>::store(pack.residual.number(i) +
                                       norm_slope(d * gain.number(i), unit, row.scale, row.mean_overlap));
    d_gain.numbers[i] += d * unit;
  }
  return d_x;
}

/// A block has the rows of a chunk, as many at once as its threads hold: they are read once, and each thread
/// sums its columns of the gradient of the gain.
template <class T, bool wide, int kPacks>
__global__ void __launch_bounds__(kThreads, 2) norm_backward_kernel(NormBackward call) {
  using Sum = typename Numbers<T>::Sum;
  constexpr int kRows = kHeldPacks / kPacks;
  const std::int64_t chunk = static_cast<std::int64_t>(blockIdx.x) * kGainRows;
  const std::int64_t end = chunk + kGainRows < call.rows ? chunk + kGainRows : call.rows;
  Held<T> gain[kPacks];
  Pack<Sum, kPack<T>> d_gain[kPacks] = {};
  PPSIM_UNROLL
  for (int p = 0; p < kPacks; ++p)
    gain[p] = hold<wide>(static_cast<const T*>(call.gain), column_of<T>(p), call.columns);
  for (std::int64_t first = chunk; first < end; first += kRows) {
    const auto behind = [&](int r) { return first + r < end ? call.columns : 0; };
    BackwardPack<T> packs[kRows][kPacks];
    PPSIM_UNROLL
    for (int p = 0; p < kPacks; ++p) gain[p].unpack_again();
    PPSIM_UNROLL
    for (int r = 0; r < kRows; ++r) {
      PPSIM_UNROLL
      for (int p = 0; p < kPacks; ++p)
        packs[r][p] = hold_backward<T, wide>(call, (first + r) * call.columns, column_of<T>(p), behind(r));
    }
    Pack<Sum, kRows> overlap{};
    PPSIM_UNROLL
    for (int r = 0; r < kRows; ++r) {
      PPSIM_UNROLL
      for (int p = 0; p < kPacks; ++p) overlap.numbers[r] = packs[r][p].overlap(gain[p], overlap.numbers[r]);
    }
    overlap = block_sum(overlap);
    PPSIM_UNROLL
    for (int p = 0; p < kPacks; ++p) {
      gain[p].unpack_again();
      PPSIM_UNROLL
      for (int r = 0; r < kRows; ++r) packs[r][p].unpack_again();
    }
    PPSIM_UNROLL
    for (int r = 0; r < kRows; ++r) {
      T* const d_x = static_cast<T*>(call.d_x) + (first + r) * call.columns;
      const Sum scale = behind(r) > 0 ? static_cast<const Sum*>(call.scale)[first + r] : Sum{};
      const BackwardRow<Sum> row{scale, mean(overlap.numbers[r], call.columns)};
      PPSIM_UNROLL
      for (int p = 0; p < kPacks; ++p) {
        store_of_row<wide>(d_x, column_of<T>(p), behind(r),
                           backward_of(packs[r][p], gain[p], row, d_gain[p]));
      }
    }
  }
  Sum* const partial = static_cast<Sum*>(call.partial) + blockIdx.x * call.columns;
  PPSIM_UNROLL
  for (int p = 0; p < kPacks; ++p) store_of_row<wide>(partial, column_of<T>(p), call.columns, d_gain[p]);
}

/// The same of rows that are longer than the threads of a block hold: they are read twice, one by one, and
/// the sums for the gain are in memory.
template <class T, bool wide>
__global__ void long_norm_backward_kernel(NormBackward call) {
  using Sum = typename Numbers<T>::Sum;
  const std::int64_t chunk = static_cast<std::int64_t>(blockIdx.x) * kGainRows;
  const std::int64_t end = chunk + kGainRows < call.rows ? chunk + kGainRows : call.rows;
  Sum* const partial = static_cast<Sum*>(call.partial) + blockIdx.x * call.columns;
  const auto gain = [&](std::int64_t c) {
    return hold<wide>(static_cast<const T*>(call.gain), c, call.columns);
  };
  for (std::int64_t r = chunk; r < end; ++r) {
    const std::int64_t begin = r * call.columns;
    Sum overlap{};
    for_packs<kPack<T>>(call.columns, [&](std::int64_t c) {
      overlap = hold_backward<T, wide>(call, begin, c, call.columns).overlap(gain(c), overlap);
    });
    const BackwardRow<Sum> row{static_cast<const Sum*>(call.scale)[r],
                               mean(block_sum(overlap), call.columns)};
    for_packs<kPack<T>>(call.columns, [&](std::int64_t c) {
      Pack<Sum, kPack<T>> d_gain{};
      if (r > chunk) d_gain = load_pack<wide, kPack<T>>(partial, c, call.columns);
      const auto pack = hold_backward<T, wide>(call, begin, c, call.columns);
      store_of_row<wide>(static_cast<T*>(call.d_x) + begin, c, call.columns,
                         backward_of(pack, gain(c), row, d_gain));
      store_of_row<wide>(partial, c, call.columns, d_gain);
    });
  }
}

/// A block sums the columns of kGroups packs over all chunks, in lanes of chunks that a tree joins.
constexpr int kGroups = 8;
constexpr int kLanes = kThreads / kGroups;

template <class Sum, bool wide>
__global__ void gain_gradient_kernel(NormBackward call) {
  constexpr int kCount = kPack<Sum>;
  __shared__ Pack<Sum, kCount> partial[kLanes][kGroups];
  const int lane = threadIdx.x / kGroups;
  const int group = static_cast<int>(threadIdx.x % kGroups);
  const std::int64_t c = (static_cast<std::int64_t>(blockIdx.x) * kGroups + group) * kCount;
  Pack<Sum, kCount> sums{};
  for (std::int64_t chunk = lane; chunk < gain_chunks(call.rows); chunk += kLanes) {
    const Sum* const row = static_cast<const Sum*>(call.partial) + chunk * call.columns;
    const auto held = hold<wide>(row, c, call.columns);
    for (int i = 0; i < kCount; ++i) sums.numbers[i] += held.number(i);
  }
  partial[lane][group] = sums;
  for (int half = kLanes / 2; half > 0; half /= 2) {
    __syncthreads();
    if (lane < half) partial[lane][group] += partial[lane + half][group];
  }
  if (lane == 0) store_of_row<wide>(static_cast<Sum*>(call.d_gain), c, call.columns, partial[0][group]);
}

template <class T, bool wide>
void launch_norm_forward(void* stream, const NormForward& call) {
  by_packs<T>(call.columns, [&](auto packs) {
    if constexpr (packs.value > 0) {
      const unsigned blocks = blocks_for(call.rows, kHeldPacks / packs.value);
      launch(norm_forward_kernel<T, wide, packs.value>, {blocks, kThreads, stream}, call);
    } else {
      launch(long_norm_forward_kernel<T, wide>, {blocks_for(call.rows, 1), kThreads, stream}, call);
    }
  });
}

template <class T, bool wide>
void launch_norm_backward(void* stream, const NormBackward& call) {
  const Threads chunks{static_cast<unsigned>(gain_chunks(call.rows)), kThreads, stream};
  by_packs<T>(call.columns, [&](auto packs) {
    if constexpr (packs.value > 0) {
      launch(norm_backward_kernel<T, wide, packs.value>, chunks, call);
    } else {
      launch(long_norm_backward_kernel<T, wide>, chunks, call);
    }
  });
}

}  // namespace

int norm_forward(void* stream, Stored stored, const NormForward& call) {
  return by_type(stored, [&](auto zero) {
    using T = decltype(zero);
    by_width(is_wide<T>(call.columns, call.x, call.gain, call.unit, call.result),
             [&](auto wide) { launch_norm_forward<T, wide.value>(stream, call); });
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
    using Sum = typename Numbers<T>::Sum;
    const bool all =
        is_wide<T>(call.columns, call.unit, call.gain, call.d_result, call.residual, call.d_x, call.partial);
    by_width(all, [&](auto wide) { launch_norm_backward<T, wide.value>(stream, call); });
    by_width(is_wide<Sum>(call.columns, call.partial, call.d_gain), [&](auto wide) {
      const unsigned blocks = blocks_for(call.columns, kGroups * kPack<Sum>);
      launch(gain_gradient_kernel<Sum, wide.value>, {blocks, kThreads, stream}, call);
    });
  });
}

}  // namespace ppsim::gpu_backend::cuda
