#pragma once

#include <array>

#include "ppsim/workload/constants.hpp"

namespace ppsim::planner {

/// The values that a constant may take where it is fitted.
struct FittedAxis {
  double FittedConstants::*constant;
  double first;
  double step;
  int count;
  [[nodiscard]] double value(int at) const { return first + step * at; }
};
inline constexpr auto kFittedAxes = std::to_array<FittedAxis>({
    {&FittedConstants::exposed_share, 0, 0.05, 21},
    {&FittedConstants::network_efficiency, 0.4, 0.02, 31},
    {&FittedConstants::product_slowdown, 1, 0.01, 31},
    {&FittedConstants::kernel_time, 0, 1e-6, 41},
});

}  // namespace ppsim::planner
