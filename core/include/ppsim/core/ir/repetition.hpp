#pragma once

#include <optional>

namespace ppsim {

/// The Programs of a schedule for m, m + period, m + 2 period, ... microbatches with m >= from differ by what
/// a period adds, which is the same each time and stands in the same places.
struct Repetition {
  int from = 1;
  int period = 1;
  friend bool operator==(const Repetition&, const Repetition&) = default;
};

/// How a schedule repeats with the number of microbatches, known from how it is made; nothing: not known.
struct Repetitions {
  std::optional<Repetition> lists;   ///< of the lists of instructions, and so of all waits
  std::optional<Repetition> queues;  ///< of each queue by itself, which is all where queues are independent
  friend bool operator==(const Repetitions&, const Repetitions&) = default;
};

}  // namespace ppsim
