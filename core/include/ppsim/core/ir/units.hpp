#pragma once

#include <cstdint>

namespace ppsim {

using Nanoseconds = std::int64_t;  ///< a time or a duration
using Bytes = std::int64_t;        ///< a size

/// One abstract time unit of `--unit` costs.
inline constexpr Nanoseconds kUnitTime = 1'000'000;

/// Sum of two times or sizes.
/// Errors: throws Overflow when the result does not fit in 64 bits.
[[nodiscard]] std::int64_t checked_add(std::int64_t a, std::int64_t b);

/// Product of two times, sizes or counts.
/// Errors: throws Overflow when the result does not fit in 64 bits.
[[nodiscard]] std::int64_t checked_multiply(std::int64_t a, std::int64_t b);

}  // namespace ppsim
