#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <type_traits>

#include "transformer/model/loss_parts.hpp"

namespace ppsim::gpu_backend::transformer {

/// The finalizer of SplitMix64: a bijection whose outputs look random.
/// Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

/// SplitMix64. Standard distributions are not used anywhere: they differ between standard libraries.
class Random {
 public:
  /// Every (seed, stream) is a separate sequence.
  constexpr Random(std::uint64_t seed, std::uint64_t stream) : state_(mix(seed) ^ mix(~stream)) {}
  [[nodiscard]] constexpr std::uint64_t next() { return mix(state_ += kStep); }
  /// Leaves out the next `count` numbers.
  constexpr void skip(std::int64_t count) { state_ += kStep * static_cast<std::uint64_t>(count); }

 private:
  static constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15U;
  std::uint64_t state_;
};

/// Streams of a model: small numbers are pieces of its parameters, these are the first of many.
inline constexpr std::uint64_t kTokenStreams = std::uint64_t{1} << 63;  ///< one per sequence
inline constexpr std::uint64_t kLossStreams = std::uint64_t{1} << 62;   ///< one per target token

/// The tokens of one sequence: mostly an affine walk over the vocabulary, which a model can learn, with
/// random jumps.
class TokenSource {
 public:
  TokenSource(std::uint64_t seed, std::uint64_t sequence, int vocab)
      : random_(seed, kTokenStreams + sequence), vocab_(static_cast<std::uint64_t>(vocab)) {}

  [[nodiscard]] std::int32_t next() {
    const std::uint64_t draw = random_.next();
    const bool jumps = first_ || draw % 4 == 0;
    first_ = false;
    token_ = (jumps ? draw >> 32 : token_ * 5 + 7) % vocab_;
    return static_cast<std::int32_t>(token_);
  }

 private:
  Random random_;
  std::uint64_t vocab_;
  std::uint64_t token_ = 0;
  bool first_ = true;
};

/// Where a next-token loss is taken, and of which part of the vocabulary the logits are.
struct LossPlace {
  std::uint64_t seed;
  std::int32_t target;
  std::size_t positions;   ///< over which the loss of a microbatch is averaged
  std::int64_t first = 0;  ///< token of the first logit
  /// The logit of the target, if it is one of so many.
  [[nodiscard]] std::optional<std::size_t> target_among(std::size_t logits) const {
    const std::int64_t at = target - first;
    if (at < 0 || at >= static_cast<std::int64_t>(logits)) return std::nullopt;
    return as_size(at);
  }
};

/// One descent step: `gradient_scale` multiplies the gradients first.
struct DescentStep {
  double learning_rate;
  double momentum;
  double gradient_scale;
};

/// One AdamW step; the corrections undo that both averages begin at 0.
struct AdamStep {
  double learning_rate, first_beta, second_beta, weight_decay, gradient_scale;
  double first_correction, second_correction;
};
inline constexpr double kAdamEpsilon = 1e-8;

/// Makes the gradient of the logits of one position from what open_loss has left of them.
template <class Policy, class T = typename Policy::Scalar>
void close_loss(const LossPlace& place, const LossParts<T>& own, const LossParts<T>& all,
                std::span<T> logits) {
  const T factor = Policy::gradient_factor(place.positions, own, all);
  for (T& logit : logits) logit *= factor;
  if (const auto target = place.target_among(logits.size()))
    logits[*target] -= Policy::target_share(place.positions);
}

/// The numbers of a model as it is trained. Sums are plain loops in ascending order, so their bits depend on
/// nothing but the operands.
template <class T>
struct RealArithmetic {
  using Scalar = T;
  using Loss = double;

  /// Writes x / rms(x) and returns 1 / rms(x).
  static T normalize(std::span<const T> x, std::span<T> unit) {
    T squares = 0;
    for (const T value : x) squares += value * value;
    const T scale = 1 / std::sqrt(squares / static_cast<T>(x.size()) + T(1e-5));
    for (std::size_t i = 0; i < x.size(); ++i) unit[i] = x[i] * scale;
    return scale;
  }
  /// Turns the gradient of `unit` into the gradient of x, in place.
  static void normalize_backward(std::span<const T> unit, T scale, std::span<T> gradient) {
    T overlap = 0;
    for (std::size_t i = 0; i < unit.size(); ++i) overlap += gradient[i] * unit[i];
    overlap /= static_cast<T>(unit.size());
    for (std::size_t i = 0; i < unit.size(); ++i) gradient[i] = scale * (gradient[i] - unit[i] * overlap);
  }

  static T score_scale(std::size_t head_size) { return 1 / std::sqrt(static_cast<T>(head_size)); }
  static void softmax(std::span<T> scores) {
    const T top = *std::ranges::max_element(scores);
    T sum = 0;
    for (T& score : scores) sum += score = std::exp(score - top);
    for (T& score : scores) score /= sum;
  }
  static void softmax_backward(std::span<const T> probabilities, std::span<T> gradient) {
    T overlap = 0;
    for (std::size_t i = 0; i < gradient.size(); ++i) overlap += gradient[i] * probabilities[i];
    for (std::size_t i = 0; i < gradient.size(); ++i)
      gradient[i] = probabilities[i] * (gradient[i] - overlap);
  }

  static T activation(T x) { return x / (1 + std::exp(-x)); }
  static T activation_slope(T x) {
    const T sigmoid = 1 / (1 + std::exp(-x));
    return sigmoid * (1 + x * (1 - sigmoid));
  }

  /// Replaces the logits of one position by what is their gradient up to a factor and the target's share.
  static LossParts<T> open_loss(const LossPlace& place, std::span<T> logits) {
    const T top = *std::ranges::max_element(logits);
    const auto target = place.target_among(logits.size());
    const T picked = target ? logits[*target] : 0;
    T sum = 0;
    for (T& logit : logits) sum += logit = std::exp(logit - top);
    return {top, sum, picked};
  }
  /// Adds the parts of some logits to those of others.
  static void merge(LossParts<T>& into, const LossParts<T>& from) {
    const T top = std::max(into.top, from.top);
    into = {top, into.sum * std::exp(into.top - top) + from.sum * std::exp(from.top - top),
            into.picked + from.picked};
  }
  /// The factor that was missing, and what the gradient of the target's logit has less than the others.
  static T gradient_factor(std::size_t positions, const LossParts<T>& own, const LossParts<T>& all) {
    return std::exp(own.top - all.top) * (target_share(positions) / all.sum);
  }
  static T target_share(std::size_t positions) { return 1 / static_cast<T>(positions); }
  static Loss loss(std::size_t positions, const LossParts<T>& all) {
    return static_cast<Loss>(std::log(all.sum) - (all.picked - all.top)) / static_cast<Loss>(positions);
  }

  static T initial_gain(std::uint64_t) { return 1; }
  /// Uniform, with the variance 1 / fan_in.
  static T initial_weight(std::uint64_t draw, std::size_t fan_in) {
    const T uniform = static_cast<T>(draw >> 40) / static_cast<T>(std::uint64_t{1} << 23) - 1;
    return uniform * std::sqrt(3 / static_cast<T>(fan_in));
  }
  static void descend(const DescentStep& step, T gradient, T& velocity, T& parameter) {
    velocity = static_cast<T>(step.momentum) * velocity + static_cast<T>(step.gradient_scale) * gradient;
    parameter -= static_cast<T>(step.learning_rate) * velocity;
  }

  static void adam(const AdamStep& step, T gradient, std::array<T*, 2> averages, T& parameter) {
    const double scaled = step.gradient_scale * static_cast<double>(gradient);
    const auto average = [](double beta, double old, double now) { return beta * old + (1 - beta) * now; };
    *averages[0] = static_cast<T>(average(step.first_beta, static_cast<double>(*averages[0]), scaled));
    *averages[1] =
        static_cast<T>(average(step.second_beta, static_cast<double>(*averages[1]), scaled * scaled));
    const double mean = static_cast<double>(*averages[0]) / step.first_correction;
    const double deviation = std::sqrt(static_cast<double>(*averages[1]) / step.second_correction);
    const double decay = step.weight_decay * static_cast<double>(parameter);
    parameter -= static_cast<T>(step.learning_rate * (mean / (deviation + kAdamEpsilon) + decay));
  }

  static double square(T x) { return static_cast<double>(x) * static_cast<double>(x); }
  /// 0 for equal bits only: not for 0 and -0, but for a NaN and itself.
  static double distance(T a, T b) {
    using Bits = std::conditional_t<sizeof(T) == sizeof(std::uint32_t), std::uint32_t, std::uint64_t>;
    if (std::bit_cast<Bits>(a) == std::bit_cast<Bits>(b)) return 0;
    const double apart = std::abs(static_cast<double>(a) - static_cast<double>(b));
    if (std::isnan(apart)) return std::numeric_limits<double>::infinity();
    return std::max(apart, std::numeric_limits<double>::denorm_min());
  }
};

/// The ring of integers modulo 2^64: every operation is exact and every order of a sum gives the same bits.
struct RingArithmetic {
  using Scalar = std::uint64_t;
  using Loss = std::uint64_t;

  static Scalar normalize(std::span<const Scalar> x, std::span<Scalar> unit) {
    std::ranges::copy(x, unit.begin());
    return 1;
  }
  static void normalize_backward(std::span<const Scalar>, Scalar, std::span<Scalar>) {}

  static Scalar score_scale(std::size_t) { return 1; }
  static void softmax(std::span<Scalar>) {}
  static void softmax_backward(std::span<const Scalar>, std::span<Scalar>) {}

  // The slope of a cube is odd where the cube is, so gradients keep their low bits through many layers.
  static Scalar activation(Scalar x) { return x * x * x; }
  static Scalar activation_slope(Scalar x) { return 3 * x * x; }

  static LossParts<Scalar> open_loss(const LossPlace& place, std::span<Scalar> logits) {
    Random factors(place.seed, kLossStreams + static_cast<std::uint64_t>(place.target));
    factors.skip(place.first);
    Loss total = 0;
    for (Scalar& logit : logits) {
      const Scalar factor = factors.next();
      total += logit * factor;
      logit = factor;
    }
    return {0, 0, total};
  }
  static void merge(LossParts<Scalar>& into, const LossParts<Scalar>& from) { into.picked += from.picked; }
  static Scalar gradient_factor(std::size_t, const LossParts<Scalar>&, const LossParts<Scalar>&) { return 1; }
  static Scalar target_share(std::size_t) { return 0; }
  static Loss loss(std::size_t, const LossParts<Scalar>& all) { return all.picked; }

  static Scalar initial_gain(std::uint64_t draw) { return (draw >> 60) | 1; }
  static Scalar initial_weight(std::uint64_t draw, std::size_t) { return (draw >> 60) - 8; }
  static void descend(const DescentStep&, Scalar gradient, Scalar& velocity, Scalar& parameter) {
    velocity = 3 * velocity + gradient;
    parameter -= velocity;
  }

  static double square(Scalar) { return 0; }
  static double distance(Scalar a, Scalar b) { return static_cast<double>(std::min(a - b, b - a)); }
};

}  // namespace ppsim::gpu_backend::transformer
