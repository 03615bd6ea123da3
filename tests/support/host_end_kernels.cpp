#include <algorithm>
#include <cmath>

#include "support/host_kernel.hpp"

namespace ppsim::test {
namespace {

using namespace cuda;  // the calls and the arithmetic of single numbers

int draw_tokens(const HostQueue& queue, void* stream, const DrawTokens& c) {
  Touched<std::int32_t> t;
  std::int32_t* tokens = t.write(c.tokens, c.sequences * c.length);
  const std::int64_t* step = c.step == nullptr ? nullptr : t.read<std::int64_t>(c.step, 1);
  return queue(stream, t.access, [=] {
    const std::int64_t first = c.first + (step == nullptr ? 0 : *step * c.per_step);
    for (std::int64_t s = 0; s < c.sequences; ++s) {
      const std::uint64_t random_stream = (std::uint64_t{1} << 63) + static_cast<std::uint64_t>(first + s);
      std::uint64_t token = 0;
      const std::int64_t unwritten = c.before + (c.next ? 1 : 0);
      for (std::int64_t i = 0; i < unwritten + c.length; ++i) {
        const std::uint64_t draw = random_at(c.seed, random_stream, static_cast<std::uint64_t>(i));
        const bool jumps = i == 0 || draw % 4 == 0;
        token = (jumps ? draw >> 32 : token * 5 + 7) % static_cast<std::uint64_t>(c.vocab);
        const std::int64_t at = i - unwritten;
        if (at >= 0) tokens[s * c.length + at] = static_cast<std::int32_t>(token);
      }
    }
  });
}

template <class T>
int embed(const HostQueue& queue, void* stream, const Embed& c) {
  Touched<T> t;
  const auto* tokens = t.template read<std::int32_t>(c.tokens, c.rows);
  const T* table = t.read(c.table, c.vocab * c.columns);
  const T* positions = t.read(c.positions, c.positions == nullptr ? 0 : c.length * c.columns);
  T* result = t.write(c.stream, c.rows * c.columns);
  return queue(stream, t.access, [=] {
    for (std::int64_t i = 0; i < c.rows * c.columns; ++i) {
      const std::int64_t row = i / c.columns;
      const std::int64_t column = i % c.columns;
      const std::int64_t at = place_among(tokens[row], c.first, c.vocab);
      SumOf<T> sum{};
      if (at >= 0) sum = get(table[at * c.columns + column]);
      if (positions != nullptr) sum += get(positions[row % c.length * c.columns + column]);
      result[i] = put<T>(sum);
    }
  });
}

template <class T>
int embed_backward(const HostQueue& queue, void* stream, const EmbedBackward& c) {
  Touched<T> t;
  const auto* tokens = t.template read<std::int32_t>(c.tokens, c.rows);
  const T* d_stream = t.read(c.d_stream, c.rows * c.columns);
  auto* d_table = t.template change<SumOf<T>>(c.d_table, c.vocab * c.columns);
  auto* d_positions =
      t.template change<SumOf<T>>(c.d_positions, c.d_positions == nullptr ? 0 : c.length * c.columns);
  return queue(stream, t.access, [=] {
    for (std::int64_t i = 0; i < c.rows * c.columns; ++i) {
      const std::int64_t row = i / c.columns;
      const std::int64_t column = i % c.columns;
      const std::int64_t at = place_among(tokens[row], c.first, c.vocab);
      if (at >= 0) d_table[at * c.columns + column] += get(d_stream[i]);
      if (d_positions != nullptr) d_positions[row % c.length * c.columns + column] += get(d_stream[i]);
    }
  });
}

template <class T>
SumOf<T> row_loss(const Loss& c, T* logits, std::int32_t target) {
  if constexpr (std::is_same_v<T, Ring>) {
    Ring total = 0;
    for (std::int64_t i = 0; i < c.vocab; ++i) {
      const Ring factor = random_at(c.seed, (std::uint64_t{1} << 62) + static_cast<std::uint64_t>(target),
                                    static_cast<std::uint64_t>(i));
      total += logits[i] * factor;
      logits[i] = factor;
    }
    return total;
  } else {
    float top = -INFINITY;
    for (std::int64_t i = 0; i < c.vocab; ++i) top = std::max(top, get(logits[i]));
    const float target_logit = get(logits[target]) - top;
    float sum = 0;
    for (std::int64_t i = 0; i < c.vocab; ++i) sum += std::exp(get(logits[i]) - top);
    const float share = 1 / static_cast<float>(c.tokens);
    for (std::int64_t i = 0; i < c.vocab; ++i) {
      const float gradient = std::exp(get(logits[i]) - top) / sum - (i == target ? 1.0F : 0.0F);
      logits[i] = put<T>(gradient * share);
    }
    return (std::log(sum) - target_logit) * share;
  }
}

template <class T>
int loss(const HostQueue& queue, void* stream, const Loss& c) {
  Touched<T> t;
  const auto* targets = t.template read<std::int32_t>(c.targets, c.rows);
  T* logits = t.change(c.logits, c.rows * c.vocab);
  auto* row_losses = t.template write<SumOf<T>>(c.row_losses, c.rows);
  auto* total = t.template write<SumOf<T>>(c.loss, 1);
  return queue(stream, t.access, [=] {
    *total = SumOf<T>{};
    for (std::int64_t r = 0; r < c.rows; ++r) {
      row_losses[r] = row_loss(c, logits + r * c.vocab, targets[r]);
      *total += row_losses[r];
    }
  });
}

template <class T>
int accumulate(const HostQueue& queue, void* stream, const Accumulate& c) {
  Touched<SumOf<T>> t;
  auto* into = t.change(c.into, c.count);
  const auto* from = t.read(c.from, c.count);
  return queue(stream, t.access, [=] {
    for (std::int64_t i = 0; i < c.count; ++i) into[i] += from[i];
  });
}

template <class T>
int squared_norm(const HostQueue& queue, void* stream, const SquaredNorm& c) {
  Touched<SumOf<T>> t;
  const auto* values = t.read(c.values, c.count);
  auto* result = t.template change<double>(c.result, 1);
  static_cast<void>(t.template write<double>(c.partial, kPartials));
  return queue(stream, t.access, [=] {
    if constexpr (!std::is_same_v<T, Ring>) {
      for (std::int64_t i = 0; i < c.count; ++i) *result += static_cast<double>(values[i]) * values[i];
    }
  });
}

int add_norm(const HostQueue& queue, void* stream, const AddNorm& c) {
  Touched<float> t;
  auto* into = t.change<double>(c.into, 1);
  const auto* from = t.read<double>(c.from, 1);
  return queue(stream, t.access, [=] { *into += *from; });
}

template <class T>
void descend_now(const Descend& c, double scale) {
  if constexpr (std::is_same_v<T, Ring>) {
    auto* velocity = static_cast<Ring*>(c.state);
    for (std::int64_t i = 0; i < c.count; ++i) {
      velocity[i] = 3 * velocity[i] + static_cast<const Ring*>(c.gradients)[i];
      static_cast<Ring*>(c.parameters)[i] -= velocity[i];
    }
  } else {
    auto* master = static_cast<float*>(c.state);
    float* first = master + c.count;
    float* second = first + c.count;
    if (!c.adam) {
      for (std::int64_t i = 0; i < c.count; ++i) {
        const float gradient = static_cast<float>(scale) * static_cast<const float*>(c.gradients)[i];
        first[i] = static_cast<float>(c.beta1) * first[i] + gradient;
        master[i] -= static_cast<float>(c.learning_rate) * first[i];
        static_cast<T*>(c.parameters)[i] = put<T>(master[i]);
      }
      return;
    }
    const auto step = static_cast<double>(++*c.steps);
    for (std::int64_t i = 0; i < c.count; ++i) {
      const double gradient = static_cast<double>(static_cast<const float*>(c.gradients)[i]) * scale;
      const double m = c.beta1 * first[i] + (1 - c.beta1) * gradient;
      const double v = c.beta2 * second[i] + (1 - c.beta2) * gradient * gradient;
      const double move =
          m / (1 - std::pow(c.beta1, step)) / (std::sqrt(v / (1 - std::pow(c.beta2, step))) + c.epsilon) +
          c.weight_decay * master[i];
      first[i] = static_cast<float>(m);
      second[i] = static_cast<float>(v);
      master[i] -= static_cast<float>(c.learning_rate * move);
      static_cast<T*>(c.parameters)[i] = put<T>(master[i]);
    }
  }
}

template <class T>
int descend(const HostQueue& queue, void* stream, const Descend& c) {
  Touched<T> t;
  constexpr bool kExact = std::is_same_v<T, Ring>;
  static_cast<void>(t.change(c.parameters, c.count));
  static_cast<void>(t.template read<SumOf<T>>(c.gradients, c.count));
  static_cast<void>(t.template change<SumOf<T>>(c.state, kExact ? c.count : 3 * c.count));
  if (!kExact) static_cast<void>(t.template change<std::int64_t>(c.steps, 1));
  if (c.squared_norm != nullptr) static_cast<void>(t.template read<double>(c.squared_norm, 1));
  return queue(stream, t.access, [c] {
    const double norm = c.squared_norm == nullptr ? 0 : std::sqrt(*c.squared_norm);
    descend_now<T>(c, norm > c.largest_norm ? c.largest_norm / norm : 1);
  });
}

template <class T>
int draw_weights(const HostQueue& queue, void* stream, const DrawWeights& c) {
  Touched<T> t;
  T* weights = t.write(c.weights, c.rows * c.columns);
  return queue(stream, t.access, [=] {
    for (std::int64_t i = 0; i < c.rows * c.columns; ++i) {
      const std::int64_t drawn = i / c.columns * c.row_draws + i % c.columns;
      const std::uint64_t draw = random_at(c.seed, c.stream, c.first + static_cast<std::uint64_t>(drawn));
      if constexpr (std::is_same_v<T, Ring>) {
        weights[i] = c.fan_in == 0 ? (draw >> 60) | 1 : (draw >> 60) - 8;
      } else {
        const float uniform = static_cast<float>(draw >> 40) / static_cast<float>(1 << 23) - 1;
        weights[i] = put<T>(c.fan_in == 0 ? 1 : uniform * std::sqrt(3 / static_cast<float>(c.fan_in)));
      }
    }
  });
}

template <class T>
int start_state(const HostQueue& queue, void* stream, const StartState& c) {
  Touched<T> t;
  constexpr bool kExact = std::is_same_v<T, Ring>;
  const T* parameters = t.read(c.parameters, c.count);
  auto* state = t.template write<SumOf<T>>(c.state, kExact ? c.count : 3 * c.count);
  if (!kExact) static_cast<void>(t.template write<std::int64_t>(c.steps, 1));
  return queue(stream, t.access, [=] {
    std::fill(state, state + (kExact ? 1 : 3) * c.count, SumOf<T>{});
    if constexpr (!kExact) {
      for (std::int64_t i = 0; i < c.count; ++i) state[i] = get(parameters[i]);
      *c.steps = 0;
    }
  });
}

}  // namespace

void add_end_kernels(KernelTable& table, const HostQueue& queue) {
  PPSIM_HOST_KERNEL(table, queue, embed, Embed);
  PPSIM_HOST_KERNEL(table, queue, embed_backward, EmbedBackward);
  PPSIM_HOST_KERNEL(table, queue, loss, Loss);
  PPSIM_HOST_KERNEL(table, queue, accumulate, Accumulate);
  PPSIM_HOST_KERNEL(table, queue, squared_norm, SquaredNorm);
  PPSIM_HOST_KERNEL(table, queue, descend, Descend);
  PPSIM_HOST_KERNEL(table, queue, draw_weights, DrawWeights);
  PPSIM_HOST_KERNEL(table, queue, start_state, StartState);
  table.add_norm = [queue](void* stream, const AddNorm& call) { return test::add_norm(queue, stream, call); };
  table.draw_tokens = [queue](void* stream, const DrawTokens& call) {
    return test::draw_tokens(queue, stream, call);
  };
}

}  // namespace ppsim::test
