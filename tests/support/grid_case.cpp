#include "support/grid_case.hpp"

#include <algorithm>

#include "support/closed_forms.hpp"
#include "support/golden.hpp"

namespace ppsim::test {

void PrintTo(const GridCase& grid, std::ostream* out) { *out << grid.file; }

std::string name_of(const testing::TestParamInfo<GridCase>& drawn) {
  std::string name = drawn.param.file;
  std::ranges::replace(name, '-', '_');
  return name;
}

void expect_grid(const GridCase& grid) {
  const CostTable costs = cost_table({});
  const Schedule schedule = generated(grid.name, grid.parameters);
  EXPECT_EQ(step_time(schedule, costs).makespan, grid.makespan);
  for (int r = 0; r < grid.parameters.ranks; ++r) {
    EXPECT_EQ(peak_live_activations(schedule, RankId(r)), grid.peaks[static_cast<std::size_t>(r)])
        << "rank " << r;
  }
  EXPECT_EQ(golden_difference("schedules/" + grid.file + ".txt", time_grid(schedule, costs, 1)), "");
}

}  // namespace ppsim::test
