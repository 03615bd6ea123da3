#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace ppsim::planner {

/// The value at a share of the sorted ones, the smallest that so many do not exceed (nearest rank).
/// Requires: at least one value, 0 <= share <= 1.
template <class T>
[[nodiscard]] T percentile(const std::vector<T>& sorted, double share) {
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::max<std::size_t>(rank, 1) - 1];
}

/// The one in the middle of the sorted values; of an even number the mean of both.
/// Requires: at least one value.
[[nodiscard]] inline double middle_of(const std::vector<double>& sorted) {
  const std::size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

}  // namespace ppsim::planner
