#pragma once

#include <compare>
#include <cstdint>
#include <ostream>

namespace ppsim::simulator {

/// A fraction from 0 on, in lowest terms; of denominator 0: infinite.
class Ratio {
 public:
  constexpr Ratio() = default;
  /// Requires: both >= 0, and not both 0.
  Ratio(std::int64_t numerator, std::int64_t denominator);
  [[nodiscard]] static Ratio infinite() { return {1, 0}; }

  [[nodiscard]] std::int64_t numerator() const { return numerator_; }
  [[nodiscard]] std::int64_t denominator() const { return denominator_; }
  [[nodiscard]] bool is_infinite() const { return denominator_ == 0; }
  [[nodiscard]] double value() const;

  friend bool operator==(const Ratio&, const Ratio&) = default;
  friend std::strong_ordering operator<=>(const Ratio& a, const Ratio& b);

 private:
  std::int64_t numerator_ = 0;
  std::int64_t denominator_ = 1;
};
/// "3/2", "4", "infinite".
std::ostream& operator<<(std::ostream& out, const Ratio& ratio);

}  // namespace ppsim::simulator

namespace ppsim {
using simulator::Ratio;
}  // namespace ppsim
