#pragma once

#include <cstdint>

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

}  // namespace ppsim::gpu_backend::transformer
