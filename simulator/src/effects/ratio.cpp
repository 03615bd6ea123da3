#include "ppsim/simulator/effects/ratio.hpp"

#include <limits>
#include <numeric>

#include "ppsim/core/ir/check.hpp"

namespace ppsim::simulator {

Ratio::Ratio(std::int64_t numerator, std::int64_t denominator) {
  PPSIM_CHECK(numerator >= 0 && denominator >= 0 && (numerator > 0 || denominator > 0), "no ratio");
  const std::int64_t divisor = std::gcd(numerator, denominator);
  numerator_ = numerator / divisor;
  denominator_ = denominator / divisor;
}

double Ratio::value() const {
  if (is_infinite()) return std::numeric_limits<double>::infinity();
  return static_cast<double>(numerator_) / static_cast<double>(denominator_);
}

std::strong_ordering operator<=>(const Ratio& a, const Ratio& b) {
  __extension__ using Wide = __int128;
  const Wide left = Wide{a.numerator_} * b.denominator_;
  const Wide right = Wide{b.numerator_} * a.denominator_;
  if (left == right) return std::strong_ordering::equal;
  return left < right ? std::strong_ordering::less : std::strong_ordering::greater;
}

std::ostream& operator<<(std::ostream& out, const Ratio& ratio) {
  if (ratio.is_infinite()) return out << "infinite";
  out << ratio.numerator();
  if (ratio.denominator() != 1) out << '/' << ratio.denominator();
  return out;
}

}  // namespace ppsim::simulator
