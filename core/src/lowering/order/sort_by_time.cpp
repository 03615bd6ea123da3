#include "sort_by_time.hpp"

#include <algorithm>
#include <numeric>

#include "ppsim/core/ir/check.hpp"

namespace ppsim::lowering {

void sort_by_time(LineRows& rows) {
  for (LineRow& row : rows) {
    PPSIM_CHECK(row.times.size() == row.lines.size(), "every line needs a time");
    std::vector<std::uint32_t> order(row.lines.size());
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return row.times[a] < row.times[b]; });
    std::vector<Line> sorted;
    sorted.reserve(order.size());
    for (const std::uint32_t i : order) sorted.push_back(row.lines[i]);
    row.lines = std::move(sorted);
    row.times = {};
  }
}

}  // namespace ppsim::lowering
