#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ppsim/schedules/registry.hpp"

namespace ppsim::test {

/// A schedule at unit costs (F=1, B=2, I=W=1, FB=3, no transfer times), as a reader would draw it by hand.
struct GridCase {
  std::string file;  ///< tests/golden/schedules/<file>.txt
  std::string name;
  ScheduleParameters parameters;
  Nanoseconds makespan = 0;
  std::vector<int> peaks;  ///< live (stage, microbatch, slice) of each rank
};
/// The case's file, which GoogleTest appends to the names of tests.
void PrintTo(const GridCase& grid, std::ostream* out);

/// The same as a part of a test's name.
std::string name_of(const testing::TestParamInfo<GridCase>& drawn);

/// Expects the makespan, the peaks and the grid of the golden file.
void expect_grid(const GridCase& grid);

}  // namespace ppsim::test
