#include <algorithm>
#include <cmath>
#include <numeric>

#include "percentile.hpp"
#include "ppsim/planner/validate.hpp"

namespace ppsim::planner {
namespace {

double share_within(const std::vector<double>& sorted, double limit) {
  const auto within = std::ranges::upper_bound(sorted, limit) - sorted.begin();
  return static_cast<double>(within) / static_cast<double>(sorted.size());
}

}  // namespace

ErrorStatistics error_statistics(const std::vector<double>& errors_percent) {
  if (errors_percent.empty()) return {};
  const auto n = static_cast<double>(errors_percent.size());
  std::vector<double> sizes;
  for (const double error : errors_percent) sizes.push_back(std::abs(error));
  std::ranges::sort(sizes);
  return {.n = static_cast<int>(errors_percent.size()),
          .mean_percent = std::accumulate(sizes.begin(), sizes.end(), 0.0) / n,
          .bias_percent = std::accumulate(errors_percent.begin(), errors_percent.end(), 0.0) / n,
          .median_percent = middle_of(sizes),
          .p95_percent = percentile(sizes, 0.95),
          .max_percent = sizes.back(),
          .within_5_percent = share_within(sizes, 5),
          .within_10_percent = share_within(sizes, 10)};
}

}  // namespace ppsim::planner
