#include <algorithm>
#include <cmath>

#include "support/host_kernel.hpp"

namespace ppsim::test {
namespace {

using namespace cuda;  // the calls and the arithmetic of single numbers

template <class T>
int norm_forward(const HostQueue& queue, void* stream, const NormForward& c) {
  Touched<T> t;
  const std::int64_t count = c.rows * c.columns;
  const T* x = t.read(c.x, count);
  const T* gain = t.read(c.gain, c.columns);
  T* unit = t.write(c.unit, count);
  auto* scale = t.template write<SumOf<T>>(c.scale, c.rows);
  T* result = t.write(c.result, count);
  return queue(stream, t.access, [=] {
    for (std::int64_t r = 0; r < c.rows; ++r) {
      SumOf<T> squares{};
      for (std::int64_t i = r * c.columns; i < (r + 1) * c.columns; ++i) squares += get(x[i]) * get(x[i]);
      scale[r] = norm_scale(squares, c.columns);
      for (std::int64_t i = r * c.columns; i < (r + 1) * c.columns; ++i) {
        unit[i] = put<T>(get(x[i]) * scale[r]);
        result[i] = put<T>(get(unit[i]) * get(gain[i % c.columns]));
      }
    }
  });
}

template <class T>
int apply_gain(const HostQueue& queue, void* stream, const ApplyGain& c) {
  Touched<T> t;
  const std::int64_t count = c.rows * c.columns;
  const T* unit = t.read(c.unit, count);
  const T* gain = t.read(c.gain, c.columns);
  T* result = t.write(c.result, count);
  return queue(stream, t.access, [=] {
    for (std::int64_t i = 0; i < count; ++i) result[i] = put<T>(get(unit[i]) * get(gain[i % c.columns]));
  });
}

template <class T>
int norm_backward(const HostQueue& queue, void* stream, const NormBackward& c) {
  Touched<T> t;
  const std::int64_t count = c.rows * c.columns;
  const T* unit = t.read(c.unit, count);
  const auto* scale = t.template read<SumOf<T>>(c.scale, c.rows);
  const T* gain = t.read(c.gain, c.columns);
  const T* d_result = t.read(c.d_result, count);
  auto* d_gain = t.template write<SumOf<T>>(c.d_gain, c.columns);
  T* d_x = t.change(c.d_x, count);
  return queue(stream, t.access, [=] {
    std::fill(d_gain, d_gain + c.columns, SumOf<T>{});
    for (std::int64_t r = 0; r < c.rows; ++r) {
      SumOf<T> overlap{};
      for (std::int64_t k = 0; k < c.columns; ++k) {
        const std::int64_t i = r * c.columns + k;
        d_gain[k] += get(d_result[i]) * get(unit[i]);
        overlap += get(d_result[i]) * get(gain[k]) * get(unit[i]);
      }
      const SumOf<T> mean_overlap = mean(overlap, c.columns);
      for (std::int64_t k = 0; k < c.columns; ++k) {
        const std::int64_t i = r * c.columns + k;
        const SumOf<T> gradient = get(d_result[i]) * get(gain[k]);
        d_x[i] = put<T>(get(d_x[i]) + norm_slope(gradient, get(unit[i]), scale[r], mean_overlap));
      }
    }
  });
}

template <class T>
void softmax(T* row, std::int64_t length, float factor) {
  if constexpr (!std::is_same_v<T, Ring>) {
    float top = -INFINITY;
    for (std::int64_t i = 0; i < length; ++i) top = std::max(top, get(row[i]) * factor);
    float sum = 0;
    for (std::int64_t i = 0; i < length; ++i) sum += std::exp(get(row[i]) * factor - top);
    for (std::int64_t i = 0; i < length; ++i) {
      row[i] = put<T>(std::exp(get(row[i]) * factor - top) / sum);
    }
  }
}
template <class T>
void softmax_backward(const T* probabilities, T* gradient, std::int64_t length, float factor) {
  if constexpr (!std::is_same_v<T, Ring>) {
    float overlap = 0;
    for (std::int64_t i = 0; i < length; ++i) overlap += get(gradient[i]) * get(probabilities[i]);
    for (std::int64_t i = 0; i < length; ++i) {
      gradient[i] = put<T>(get(probabilities[i]) * (get(gradient[i]) - overlap) * factor);
    }
  }
}

/// How many numbers of row r of all matrices lie up to the diagonal.
template <class Call>
std::int64_t length_of(const Call& c, std::int64_t r) {
  return c.columns - c.rows + r % c.rows + 1;
}

template <class T>
int causal_softmax(const HostQueue& queue, void* stream, const CausalSoftmax& c) {
  Touched<T> t;
  T* scores = t.change(c.scores, c.matrices * c.rows * c.columns);
  return queue(stream, t.access, [=] {
    for (std::int64_t r = 0; r < c.matrices * c.rows; ++r) {
      T* row = scores + r * c.columns;
      softmax(row, length_of(c, r), c.factor);
      std::fill(row + length_of(c, r), row + c.columns, T{});
    }
  });
}

template <class T>
int causal_softmax_backward(const HostQueue& queue, void* stream, const CausalSoftmaxBackward& c) {
  Touched<T> t;
  const std::int64_t count = c.matrices * c.rows * c.columns;
  const T* probabilities = t.read(c.probabilities, count);
  T* gradient = t.change(c.d_scores, count);
  return queue(stream, t.access, [=] {
    for (std::int64_t r = 0; r < c.matrices * c.rows; ++r) {
      T* row = gradient + r * c.columns;
      softmax_backward(probabilities + r * c.columns, row, length_of(c, r), c.factor);
      std::fill(row + length_of(c, r), row + c.columns, T{});
    }
  });
}

template <class T>
int store_sums(const HostQueue& queue, void* stream, const StoreSums& c) {
  Touched<T> t;
  const auto* sums = t.template read<SumOf<T>>(c.sums, c.rows * c.columns);
  T* result = static_cast<T*>(c.result);
  for (std::int64_t r = 0; r < c.rows; ++r) static_cast<void>(t.write(result + r * c.stride, c.columns));
  return queue(stream, t.access, [=] {
    for (std::int64_t i = 0; i < c.rows * c.columns; ++i)
      result[i / c.columns * c.stride + i % c.columns] = put<T>(sums[i]);
  });
}

template <class T>
int gate(const HostQueue& queue, void* stream, const Gate& c) {
  Touched<T> t;
  const T* gate_up = t.read(c.gate_up, 2 * c.rows * c.width);
  T* activated = t.write(c.activated, c.rows * c.width);
  return queue(stream, t.access, [=] {
    for (std::int64_t i = 0; i < c.rows * c.width; ++i) {
      const T* row = gate_up + i / c.width * 2 * c.width + i % c.width;
      activated[i] = put<T>(activation(get(row[0])) * get(row[c.width]));
    }
  });
}

template <class T>
int gate_backward(const HostQueue& queue, void* stream, const GateBackward& c) {
  Touched<T> t;
  const T* gate_up = t.read(c.gate_up, 2 * c.rows * c.width);
  const T* d_activated = t.read(c.d_activated, c.rows * c.width);
  T* d_gate_up = t.write(c.d_gate_up, 2 * c.rows * c.width);
  return queue(stream, t.access, [=] {
    for (std::int64_t i = 0; i < c.rows * c.width; ++i) {
      const std::int64_t at = i / c.width * 2 * c.width + i % c.width;
      const auto slope = get(d_activated[i]);
      d_gate_up[at] = put<T>(slope * get(gate_up[at + c.width]) * activation_slope(get(gate_up[at])));
      d_gate_up[at + c.width] = put<T>(slope * activation(get(gate_up[at])));
    }
  });
}

int ring_product(const HostQueue& queue, void* stream, const RingProduct& c) {
  const auto span = [](std::int64_t outer, std::int64_t stride, std::int64_t inner, std::int64_t step) {
    return (outer - 1) * stride + (inner - 1) * step + 1;
  };
  Touched<Ring> t;
  for (std::int64_t n = 0; n < c.batches; ++n) {
    static_cast<void>(t.read(c.a + n * c.a_batch, span(c.rows, c.a_row, c.inner, c.a_inner)));
    static_cast<void>(t.read(c.b + n * c.b_batch, span(c.inner, c.b_inner, c.columns, c.b_column)));
    for (std::int64_t r = 0; r < c.rows; ++r) {
      Ring* row = c.c + n * c.c_batch + r * c.c_row;
      static_cast<void>(c.accumulate ? t.change(row, c.columns) : t.write(row, c.columns));
    }
  }
  return queue(stream, t.access, [c] {
    for (std::int64_t n = 0; n < c.batches; ++n) {
      for (std::int64_t r = 0; r < c.rows; ++r) {
        for (std::int64_t k = 0; k < c.columns; ++k) {
          Ring& result = c.c[n * c.c_batch + r * c.c_row + k];
          Ring sum = c.accumulate ? result : 0;
          for (std::int64_t i = 0; i < c.inner; ++i) {
            sum += c.a[n * c.a_batch + r * c.a_row + i * c.a_inner] *
                   c.b[n * c.b_batch + i * c.b_inner + k * c.b_column];
          }
          result = sum;
        }
      }
    }
  });
}

}  // namespace

void add_layer_kernels(KernelTable& table, const HostQueue& queue) {
  PPSIM_HOST_KERNEL(table, queue, norm_forward, NormForward);
  PPSIM_HOST_KERNEL(table, queue, apply_gain, ApplyGain);
  PPSIM_HOST_KERNEL(table, queue, norm_backward, NormBackward);
  PPSIM_HOST_KERNEL(table, queue, causal_softmax, CausalSoftmax);
  PPSIM_HOST_KERNEL(table, queue, causal_softmax_backward, CausalSoftmaxBackward);
  PPSIM_HOST_KERNEL(table, queue, store_sums, StoreSums);
  PPSIM_HOST_KERNEL(table, queue, gate, Gate);
  PPSIM_HOST_KERNEL(table, queue, gate_backward, GateBackward);
  table.ring_product = [queue](void* stream, const RingProduct& call) {
    return test::ring_product(queue, stream, call);
  };
}

}  // namespace ppsim::test
