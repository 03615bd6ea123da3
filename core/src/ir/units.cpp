#include "ppsim/core/ir/units.hpp"

#include <cmath>
#include <string>

#include "ppsim/core/ir/overflow.hpp"
#include "ppsim/core/text/as_text.hpp"

namespace ppsim {

std::int64_t checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) throw Overflow(std::to_string(a) + " + " + std::to_string(b));
  return sum;
}

std::int64_t checked_multiply(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) throw Overflow(std::to_string(a) + " * " + std::to_string(b));
  return product;
}

std::int64_t checked_round(double value) {
  constexpr double kLimit = 0x1p63;
  if (value > -kLimit && value < kLimit) return std::llround(value);
  throw Overflow(as_text(value));
}

}  // namespace ppsim
