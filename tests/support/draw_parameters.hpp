#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "ppsim/schedules/registry.hpp"

namespace ppsim::test {

/// The largest parameters that a draw may have.
struct ParameterLimits {
  int ranks = 6;
  int microbatches = 14;
  int chunks = 4;
  int slices = 3;
};

/// Parameters in the schedule's ranges, with some of its settings at one of their examples. The schedule may
/// refuse them for what else it wants.
ScheduleParameters draw_any_parameters(const ScheduleInfo& info, const ParameterLimits& limits = {});

/// Parameters that check_parameters accepts. Throws when a thousand draws find none.
ScheduleParameters draw_legal_parameters(const ScheduleInfo& info, const ParameterLimits& limits = {});

/// The schedules of the registry of which something holds, for a test that is about them.
std::vector<ScheduleInfo> schedules_with(bool (*holds)(const ScheduleInfo&));

/// "zb_h1" for GoogleTest, which takes no hyphens.
std::string schedule_test_name(const testing::TestParamInfo<ScheduleInfo>& tested);

}  // namespace ppsim::test
