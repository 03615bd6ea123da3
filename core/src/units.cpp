#include "ppsim/core/units.hpp"

#include "ppsim/core/check.hpp"

namespace ppsim {

std::int64_t checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  PPSIM_CHECK(!__builtin_add_overflow(a, b, &sum), "64-bit overflow of a time or size");
  return sum;
}

std::int64_t checked_multiply(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  PPSIM_CHECK(!__builtin_mul_overflow(a, b, &product), "64-bit overflow of a time or size");
  return product;
}

}  // namespace ppsim
