#include "launch.cuh"
#include "launchers.hpp"

namespace ppsim::gpu_backend::cuda {
namespace {

/// The numbers of a row up to `length`, of `columns`, which may be taken together with what is behind them.
struct Causal {
  std::int64_t length, columns;
  float factor;
};

/// The softmax of a row by one block, zeros behind it.
template <bool wide, class T>
__device__ void softmax_row(T* row, const Causal& of) {
  constexpr int kCount = kPack<T>;
  float top = -INFINITY;
  for_packs<kCount>(of.length, [&](std::int64_t c) {
    const auto pack = load_pack<wide, kCount>(row, c, of.columns);
    for (int i = 0; i < kCount; ++i) {
      if (c + i < of.length) top = fmaxf(top, Numbers<T>::load(pack.numbers[i]) * of.factor);
    }
  });
  top = block_max(top);
  float sum = 0;
  for_packs<kCount>(of.length, [&](std::int64_t c) {
    const auto pack = load_pack<wide, kCount>(row, c, of.columns);
    for (int i = 0; i < kCount; ++i) {
      if (c + i < of.length) sum += expf(Numbers<T>::load(pack.numbers[i]) * of.factor - top);
    }
  });
  sum = block_sum(sum);
  for_packs<kCount>(of.columns, [&](std::int64_t c) {
    auto pack = load_pack<wide, kCount>(row, c, of.columns);
    for (int i = 0; i < kCount; ++i) {
      const float value = Numbers<T>::load(pack.numbers[i]) * of.factor;
      pack.numbers[i] = c + i < of.length ? Numbers<T>::store(expf(value - top) / sum) : T{};
    }
    store_pack<wide, kCount>(row, c, of.columns, pack);
  });
}

template <bool wide, class T>
__device__ void softmax_row_backward(const T* probabilities, T* gradient, const Causal& of) {
  constexpr int kCount = kPack<T>;
  float overlap = 0;
  for_packs<kCount>(of.length, [&](std::int64_t c) {
    const auto share = load_pack<wide, kCount>(probabilities, c, of.columns);
    const auto d = load_pack<wide, kCount>(gradient, c, of.columns);
    for (int i = 0; i < kCount; ++i) {
      if (c + i < of.length) overlap += Numbers<T>::load(d.numbers[i]) * Numbers<T>::load(share.numbers[i]);
    }
  });
  overlap = block_sum(overlap);
  for_packs<kCount>(of.columns, [&](std::int64_t c) {
    const auto share = load_pack<wide, kCount>(probabilities, c, of.columns);
    auto d = load_pack<wide, kCount>(gradient, c, of.columns);
    for (int i = 0; i < kCount; ++i) {
      const float slope = Numbers<T>::load(share.numbers[i]) * (Numbers<T>::load(d.numbers[i]) - overlap);
      d.numbers[i] = c + i < of.length ? Numbers<T>::store(slope * of.factor) : T{};
    }
    store_pack<wide, kCount>(gradient, c, of.columns, d);
  });
}

/// In the ring scores are their own softmax.
__device__ void clear_behind(Ring* row, const Causal& of) {
  for (std::int64_t c = of.length + threadIdx.x; c < of.columns; c += blockDim.x) row[c] = 0;
}
template <bool wide>
__device__ void softmax_row(Ring* row, const Causal& of) {
  clear_behind(row, of);
}
template <bool wide>
__device__ void softmax_row_backward(const Ring*, Ring* gradient, const Causal& of) {
  clear_behind(gradient, of);
}

/// Row r of all matrices up to the diagonal.
template <class Call>
__device__ Causal causal_row(const Call& call, unsigned r) {
  const std::int64_t row = r % static_cast<unsigned>(call.rows);
  return {call.columns - call.rows + row + 1, call.columns, call.factor};
}

template <class T, bool wide>
__global__ void causal_softmax_kernel(CausalSoftmax call) {
  softmax_row<wide>(static_cast<T*>(call.scores) + blockIdx.x * call.columns, causal_row(call, blockIdx.x));
}

template <class T, bool wide>
__global__ void causal_softmax_backward_kernel(CausalSoftmaxBackward call) {
  const std::int64_t begin = blockIdx.x * call.columns;
  softmax_row_backward<wide>(static_cast<const T*>(call.probabilities) + begin,
                             static_cast<T*>(call.d_scores) + begin, causal_row(call, blockIdx.x));
}

template <class T, bool wide>
__global__ void store_sums_kernel(StoreSums call) {
  using Sum = typename Numbers<T>::Sum;
  constexpr int kCount = kPack<T>;
  const Sum* sums = static_cast<const Sum*>(call.sums) + blockIdx.x * call.columns;
  T* row = static_cast<T*>(call.result) + blockIdx.x * call.stride;
  for_packs<kCount>(call.columns, [&](std::int64_t c) {
    const auto from = load_pack<wide, kCount>(sums, c, call.columns);
    Pack<T, kCount> to;
    for (int i = 0; i < kCount; ++i) to.numbers[i] = Numbers<T>::store(from.numbers[i]);
    store_pack<wide, kCount>(row, c, call.columns, to);
  });
}

template <class T, bool wide>
__global__ void gate_kernel(Gate call) {
  constexpr int kCount = kPack<T>;
  const T* row = static_cast<const T*>(call.gate_up) + blockIdx.x * 2 * call.width;
  T* activated = static_cast<T*>(call.activated) + blockIdx.x * call.width;
  for_packs<kCount>(call.width, [&](std::int64_t c) {
    const auto gate = load_pack<wide, kCount>(row, c, call.width);
    const auto up = load_pack<wide, kCount>(row + call.width, c, call.width);
    Pack<T, kCount> result;
    for (int i = 0; i < kCount; ++i) {
      result.numbers[i] =
          Numbers<T>::store(activation(Numbers<T>::load(gate.numbers[i])) * Numbers<T>::load(up.numbers[i]));
    }
    store_pack<wide, kCount>(activated, c, call.width, result);
  });
}

template <class T, bool wide>
__global__ void gate_backward_kernel(GateBackward call) {
  constexpr int kCount = kPack<T>;
  const std::int64_t begin = blockIdx.x * 2 * call.width;
  const T* row = static_cast<const T*>(call.gate_up) + begin;
  T* d_row = static_cast<T*>(call.d_gate_up) + begin;
  const T* d_activated = static_cast<const T*>(call.d_activated) + blockIdx.x * call.width;
  for_packs<kCount>(call.width, [&](std::int64_t c) {
    auto gate = load_pack<wide, kCount>(row, c, call.width);
    auto up = load_pack<wide, kCount>(row + call.width, c, call.width);
    const auto d_pack = load_pack<wide, kCount>(d_activated, c, call.width);
    for (int i = 0; i < kCount; ++i) {
      const auto of_gate = Numbers<T>::load(gate.numbers[i]);
      const auto of_up = Numbers<T>::load(up.numbers[i]);
      const auto d = Numbers<T>::load(d_pack.numbers[i]);
      gate.numbers[i] = Numbers<T>::store(d * of_up * activation_slope(of_gate));
      up.numbers[i] = Numbers<T>::store(d * activation(of_gate));
    }
    store_pack<wide, kCount>(d_row, c, call.width, gate);
    store_pack<wide, kCount>(d_row + call.width, c, call.width, up);
  });
}

/// A block has up to kThreads columns of a row.
__global__ void ring_product_kernel(RingProduct call) {
  const unsigned across = (static_cast<unsigned>(call.columns) + kThreads - 1) / kThreads;
  const std::int64_t row = blockIdx.x / across;
  const std::int64_t column = blockIdx.x % across * kThreads + threadIdx.x;
  if (column >= call.columns) return;
  const std::uint64_t* a = call.a + blockIdx.y * call.a_batch + row * call.a_row;
  const std::uint64_t* b = call.b + blockIdx.y * call.b_batch + column * call.b_column;
  std::uint64_t* c = call.c + blockIdx.y * call.c_batch + row * call.c_row + column;
  std::uint64_t sum = call.accumulate ? *c : 0;
  for (std::int64_t k = 0; k < call.inner; ++k) sum += a[k * call.a_inner] * b[k * call.b_inner];
  *c = sum;
}

}  // namespace

int causal_softmax(void* stream, Stored stored, const CausalSoftmax& call) {
  return by_type(stored, [&](auto zero) {
    using T = decltype(zero);
    by_width(is_wide<T>(call.columns, call.scores), [&](auto wide) {
      launch(causal_softmax_kernel<T, wide.value>,
             {blocks_for(call.matrices * call.rows, 1), kThreads, stream}, call);
    });
  });
}

int causal_softmax_backward(void* stream, Stored stored, const CausalSoftmaxBackward& call) {
  return by_type(stored, [&](auto zero) {
    using T = decltype(zero);
    by_width(is_wide<T>(call.columns, call.probabilities, call.d_scores), [&](auto wide) {
      launch(causal_softmax_backward_kernel<T, wide.value>,
             {blocks_for(call.matrices * call.rows, 1), kThreads, stream}, call);
    });
  });
}

int store_sums(void* stream, Stored stored, const StoreSums& call) {
  return by_type(stored, [&](auto zero) {
    using T = decltype(zero);
    const bool both = is_wide<T>(call.columns, call.sums, call.result) && call.stride % kPack<T> == 0;
    by_width(both, [&](auto wide) {
      launch(store_sums_kernel<T, wide.value>,
             {blocks_for(call.rows, 1), threads_for_row<T>(call.columns), stream}, call);
    });
  });
}

int gate(void* stream, Stored stored, const Gate& call) {
  return by_type(stored, [&](auto zero) {
    using T = decltype(zero);
    by_width(is_wide<T>(call.width, call.gate_up, call.activated), [&](auto wide) {
      launch(gate_kernel<T, wide.value>, {blocks_for(call.rows, 1), threads_for_row<T>(call.width), stream},
             call);
    });
  });
}

int gate_backward(void* stream, Stored stored, const GateBackward& call) {
  return by_type(stored, [&](auto zero) {
    using T = decltype(zero);
    by_width(is_wide<T>(call.width, call.gate_up, call.d_activated, call.d_gate_up), [&](auto wide) {
      launch(gate_backward_kernel<T, wide.value>,
             {blocks_for(call.rows, 1), threads_for_row<T>(call.width), stream}, call);
    });
  });
}

int ring_product(void* stream, const RingProduct& call) {
  const dim3 grid(blocks_for(call.columns) * static_cast<unsigned>(call.rows),
                  static_cast<unsigned>(call.batches));
  launch(ring_product_kernel, {grid, kThreads, stream}, call);
  return launched();
}

}  // namespace ppsim::gpu_backend::cuda
