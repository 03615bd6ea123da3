#pragma once

#include <cstdint>
#include <vector>

namespace ppsim::simulator {

/// Which number of a run of draws: same key, same number, on any machine and in any order.
struct DrawKey {
  std::uint64_t seed = 0;
  std::uint64_t sample = 0;
  std::uint64_t draw = 0;
};

/// Normal with mean 0 and deviation 1: the quantile of a uniform number that the key is hashed to. Within
/// 8.3 of 0.
/// Source: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), quantiles by Wichura's algorithm AS 241 (1988).
[[nodiscard]] double normal_draw(const DrawKey& key);

/// The number from 0 to 1 that a normal one does not exceed with this probability.
[[nodiscard]] double normal_share(double normal);

/// How factors of costs are spread. Their mean is 1, but for those of a list.
struct FactorSpread {
  enum class Shape : std::uint8_t {
    normal,     ///< cut off at 0, so the mean is above 1 where the deviation is large
    lognormal,  ///< many small deviations that multiply
    gamma,      ///< a wait for many small things
    list,       ///< as measured: each of `values` is as likely
  };
  Shape shape = Shape::lognormal;
  double deviation = 0;  ///< relative
  std::vector<double> values = {};
  /// Of one factor with the next one of the same rank or link, from 0 to below 1: of their normal numbers.
  double correlation = 0;
  friend bool operator==(const FactorSpread&, const FactorSpread&) = default;
};

/// From a normal number to a factor, with a table: quantiles at equal steps, and lines between them. Only
/// additions, products, quotients and roots were used, so it is the same everywhere.
class FactorTable {
 public:
  /// Requires: 0 <= deviation <= 2, or a list that is not empty and has no value below 0.
  explicit FactorTable(const FactorSpread& spread);
  [[nodiscard]] double operator()(double normal) const;

 private:
  std::vector<double> quantiles_;
  std::vector<double> values_;  ///< of a list, ascending
};

/// The number that follows another one with this correlation, given a new draw.
[[nodiscard]] double correlated(double previous, double draw, double correlation);

/// A cost times a factor, to the nearest nanosecond; the cost itself for 1.
/// Errors: throws Overflow where it does not fit in 64 bits.
[[nodiscard]] std::int64_t scaled_cost(std::int64_t cost, double factor);

}  // namespace ppsim::simulator

namespace ppsim {
using simulator::DrawKey;
using simulator::FactorSpread;
using simulator::FactorTable;
}  // namespace ppsim
