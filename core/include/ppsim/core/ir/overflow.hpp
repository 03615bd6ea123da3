#pragma once

#include <cstdint>
#include <stdexcept>

namespace ppsim {

/// Times or sizes of the input that come to more than 64 bits hold; 9223372036854775807 ns are 292 years. Its
/// text says which. No library catches it; the command line makes a bad argument of it.
class Overflow : public std::overflow_error {
 public:
  using std::overflow_error::overflow_error;
};

/// The nearest whole number of nanoseconds or bytes, halves away from 0.
/// Errors: throws Overflow when it does not fit in 64 bits.
[[nodiscard]] std::int64_t checked_round(double value);

}  // namespace ppsim
