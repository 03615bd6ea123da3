// Compiled by itself and without contraction: a product and a sum that one instruction rounds once are
// another number than those that are rounded twice.

#include "ppsim/simulator/effects/factor_draws.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>

#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/ir/overflow.hpp"

namespace ppsim::simulator {
namespace {

constexpr double kLogOfTwo = 0.6931471805599453;
constexpr double kMaxNormal = 8.5;  ///< beyond what draws reach
constexpr int kStepsOfOne = 256;    ///< of a table

std::uint64_t mixed(std::uint64_t state) {
  state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9ULL;
  state = (state ^ (state >> 27)) * 0x94D049BB133111EBULL;
  return state ^ (state >> 31);
}

/// Those of libraries differ in the last digit from machine to machine.
double portable_exp(double x) {
  const double halvings = std::floor(x / kLogOfTwo + 0.5);
  const double rest = x - halvings * kLogOfTwo;
  double sum = 1;
  for (int n = 20; n > 0; --n) sum = 1 + rest / n * sum;
  return std::ldexp(sum, static_cast<int>(halvings));
}

/// Requires: x > 0.
double portable_log(double x) {
  int exponent = 0;
  const double mantissa = std::frexp(x, &exponent);
  // 2 atanh(y), of which |y| is at most a third.
  const double y = (mantissa - 1) / (mantissa + 1);
  double sum = 0;
  for (int n = 41; n > 0; n -= 2) sum = sum * y * y + 1.0 / n;
  return 2 * y * sum + exponent * kLogOfTwo;
}

double polynomial(std::span<const double> coefficients, double x) {
  double sum = 0;
  for (std::size_t i = coefficients.size(); i-- > 0;) sum = sum * x + coefficients[i];
  return sum;
}

/// Wichura, "Algorithm AS 241: The percentage points of the normal distribution", Applied Statistics 37
/// (1988): PPND16.
constexpr std::array<double, 8> kCentreAbove = {
    3.3871328727963666080e0,  1.3314166789178437745e+2, 1.9715909503065514427e+3, 1.3731693765509461125e+4,
    4.5921953931549871457e+4, 6.7265770927008700853e+4, 3.3430575583588128105e+4, 2.5090809287301226727e+3};
constexpr std::array<double, 8> kCentreBelow = {1.0,
                                                4.2313330701600911252e+1,
                                                6.8718700749205790830e+2,
                                                5.3941960214247511077e+3,
                                                2.1213794301586595867e+4,
                                                3.9307895800092710610e+4,
                                                2.8729085735721942674e+4,
                                                5.2264952788528545610e+3};
constexpr std::array<double, 8> kMiddleAbove = {1.42343711074968357734e0,  4.63033784615654529590e0,
                                                5.76949722146069140550e0,  3.64784832476320460504e0,
                                                1.27045825245236838258e0,  2.41780725177450611770e-1,
                                                2.27238449892691845833e-2, 7.74545014278341407640e-4};
constexpr std::array<double, 8> kMiddleBelow = {1.0,
                                                2.05319162663775882187e0,
                                                1.67638483018380384940e0,
                                                6.89767334985100004550e-1,
                                                1.48103976427480074590e-1,
                                                1.51986665636164571966e-2,
                                                5.47593808499534494600e-4,
                                                1.05075007164441684324e-9};
constexpr std::array<double, 8> kTailAbove = {6.65790464350110377720e0,  5.46378491116411436990e0,
                                              1.78482653991729133580e0,  2.96560571828504891230e-1,
                                              2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                              2.71155556874348757815e-5, 2.01033439929228813265e-7};
constexpr std::array<double, 8> kTailBelow = {1.0,
                                              5.99832206555887937690e-1,
                                              1.36929880922735805310e-1,
                                              1.48753612908506148525e-2,
                                              7.86869131145613259100e-4,
                                              1.84631831751005468180e-5,
                                              1.42151175831644588870e-7,
                                              2.04426310338993978564e-15};

double normal_quantile(double share) {
  const double from_centre = share - 0.5;
  if (std::abs(from_centre) <= 0.425) {
    const double r = 0.180625 - from_centre * from_centre;
    return from_centre * polynomial(kCentreAbove, r) / polynomial(kCentreBelow, r);
  }
  const double tail = from_centre < 0 ? share : 1 - share;
  const double r = std::sqrt(-portable_log(tail));
  const double size = r <= 5 ? polynomial(kMiddleAbove, r - 1.6) / polynomial(kMiddleBelow, r - 1.6)
                             : polynomial(kTailAbove, r - 5) / polynomial(kTailBelow, r - 5);
  return from_centre < 0 ? -size : size;
}

double normal_density(double x) {
  constexpr double kRootOfTwoPi = 2.5066282746310002;
  return portable_exp(-x * x / 2) / kRootOfTwoPi;
}

/// The share of the normal distribution beyond x >= 0.
double upper_tail(double x) {
  if (x < 3) {  // Marsaglia's series of the share between 0 and x
    double term = x;
    double sum = x;
    for (int n = 3; n < 120; n += 2) sum += term *= x * x / n;
    return 0.5 - sum * normal_density(x);
  }
  double fraction = x;  // Laplace's continued fraction
  for (int n = 120; n > 0; --n) fraction = x + n / fraction;
  return normal_density(x) / fraction;
}

double normal_at(std::size_t place) { return static_cast<double>(place) / kStepsOfOne - kMaxNormal; }

constexpr std::size_t kPlaces = static_cast<std::size_t>(2 * kMaxNormal * kStepsOfOne) + 1;

/// Quantiles of the gamma distribution with mean 1 by adding up its density, in terms of the logarithm: from
/// each end the share that lies beyond, which keeps the digits of both tails.
class GammaQuantiles {
 public:
  explicit GammaQuantiles(double deviation)
      : shape_(1 / (deviation * deviation)), step_(std::min(deviation, 0.125) / 64) {
    double highest = 0;  // the peak is at 0 and 1 high
    while (density(lowest_) > kNothing) lowest_ -= step_;
    while (density(highest) > kNothing) highest += step_;
    const auto steps = static_cast<std::size_t>((highest - lowest_) / step_) + 1;
    below_.assign(steps + 1, 0);
    above_.assign(steps + 1, 0);
    std::vector<double> slices;
    for (std::size_t i = 0; i < steps; ++i) slices.push_back(slice(i));
    for (std::size_t i = 0; i < steps; ++i) below_[i + 1] = below_[i] + slices[i];
    for (std::size_t i = steps; i-- > 0;) above_[i] = above_[i + 1] + slices[i];
  }

  [[nodiscard]] double operator()(double normal) const {
    return portable_exp(normal < 0 ? from_below(upper_tail(-normal)) : from_above(upper_tail(normal)));
  }

 private:
  static constexpr double kNothing = 1e-18;

  [[nodiscard]] double density(double y) const { return portable_exp(shape_ * (y - portable_exp(y) + 1)); }
  /// Simpson's rule.
  [[nodiscard]] double slice(std::size_t i) const {
    const double y = lowest_ + static_cast<double>(i) * step_;
    return step_ / 6 * (density(y) + 4 * density(y + step_ / 2) + density(y + step_));
  }
  [[nodiscard]] double from_below(double share) const {
    const double wanted = share * below_.back();
    const auto at = std::upper_bound(below_.begin() + 1, below_.end() - 1, wanted);
    return between(at - below_.begin() - 1, (wanted - at[-1]) / (*at - at[-1]));
  }
  [[nodiscard]] double from_above(double share) const {
    const double wanted = share * above_.front();
    const auto at = std::upper_bound(above_.rbegin() + 1, above_.rend() - 1, wanted);
    return between(above_.rend() - at - 1, 1 - (wanted - at[-1]) / (*at - at[-1]));
  }
  [[nodiscard]] double between(std::ptrdiff_t i, double part) const {
    return lowest_ + (static_cast<double>(i) + std::clamp(part, 0.0, 1.0)) * step_;
  }

  double shape_;
  double step_;
  double lowest_ = 0;
  std::vector<double> below_;
  std::vector<double> above_;
};

std::vector<double> quantiles_of(const FactorSpread& spread) {
  std::vector<double> quantiles(kPlaces, 1.0);
  if (spread.deviation == 0 || spread.shape == FactorSpread::Shape::list) return quantiles;
  const double deviation = spread.deviation;
  const double sigma = std::sqrt(portable_log(1 + deviation * deviation));
  std::optional<GammaQuantiles> gamma;
  if (spread.shape == FactorSpread::Shape::gamma) gamma.emplace(deviation);
  for (std::size_t i = 0; i < kPlaces; ++i) {
    const double z = normal_at(i);
    switch (spread.shape) {
      case FactorSpread::Shape::normal:
        quantiles[i] = std::max(0.0, 1 + deviation * z);
        break;
      case FactorSpread::Shape::lognormal:
        quantiles[i] = portable_exp(sigma * z - sigma * sigma / 2);
        break;
      case FactorSpread::Shape::gamma:
        quantiles[i] = (*gamma)(z);
        break;
      case FactorSpread::Shape::list:
        break;
    }
  }
  return quantiles;
}

}  // namespace

double normal_draw(const DrawKey& key) {
  constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15ULL;
  const std::uint64_t stream = mixed(mixed(key.seed + kGolden) + key.sample * kGolden + kGolden);
  const std::uint64_t bits = mixed(stream + key.draw * kGolden);
  return normal_quantile((static_cast<double>(bits >> 12) + 0.5) * 0x1.0p-52);
}

double normal_share(double normal) { return normal < 0 ? upper_tail(-normal) : 1 - upper_tail(normal); }

FactorTable::FactorTable(const FactorSpread& spread)
    : quantiles_(quantiles_of(spread)), values_(spread.values) {
  PPSIM_CHECK(spread.deviation >= 0 && spread.deviation <= 2, "a deviation from 0 to 2");
  PPSIM_CHECK(spread.shape != FactorSpread::Shape::list || !values_.empty(), "a list of factors");
  if (spread.shape != FactorSpread::Shape::list) values_.clear();
  std::sort(values_.begin(), values_.end());
}

double FactorTable::operator()(double normal) const {
  if (!values_.empty()) {
    const double place = normal_share(normal) * static_cast<double>(values_.size());
    return values_[std::min(static_cast<std::size_t>(place), values_.size() - 1)];
  }
  const double place = (normal + kMaxNormal) * kStepsOfOne;
  const auto before = std::min(static_cast<std::size_t>(std::max(place, 0.0)), quantiles_.size() - 2);
  const double part = place - static_cast<double>(before);
  return quantiles_[before] + part * (quantiles_[before + 1] - quantiles_[before]);
}

double correlated(double previous, double draw, double correlation) {
  return correlation * previous + std::sqrt(1 - correlation * correlation) * draw;
}

std::int64_t scaled_cost(std::int64_t cost, double factor) {
  return factor == 1 ? cost : checked_round(static_cast<double>(cost) * factor);
}

}  // namespace ppsim::simulator
