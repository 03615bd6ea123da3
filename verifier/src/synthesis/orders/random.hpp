#pragma once

#include <cstdint>

namespace ppsim::verifier::synthesis {

/// The same numbers for a seed on every machine.
/// Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014 (SplitMix64).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t operator()() {
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  }

  /// 0 to count - 1. Requires: count > 0.
  std::int64_t below(std::int64_t count) {
    return static_cast<std::int64_t>((*this)() % static_cast<std::uint64_t>(count));
  }
  /// True once in so many times.
  bool one_in(std::int64_t count) { return below(count) == 0; }
  /// 1, or with half the chance each 2, 3, ...
  int step() {
    int step = 1;
    for (std::uint64_t bits = (*this)(); (bits & 1U) != 0 && step < 32; bits >>= 1U) ++step;
    return step;
  }

 private:
  std::uint64_t state_;
};

}  // namespace ppsim::verifier::synthesis
