#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "ppsim/core/ir/transports.hpp"
#include "ppsim/verifier/parameterized/all_microbatches.hpp"
#include "support/budget.hpp"
#include "support/draw_parameters.hpp"
#include "support/generated.hpp"

namespace ppsim::test {
namespace {

constexpr int kFurther = 40;  // microbatches beyond those that verify compares itself

/// The registry's claims on how its schedules repeat, Program by Program.
class RepetitionsOf : public testing::TestWithParam<ScheduleInfo> {
 protected:
  static AllMicrobatchesReport ask(const ProgramFor& programs, const Repetitions& known,
                                   const LaunchChain& launches) {
    AllMicrobatchesOptions options;
    options.properties = {Property::deadlock_free};
    options.capabilities.launches = launches;
    options.capabilities.guaranteed_launches = launches;
    options.repetitions = known;
    options.timeout_s = kNoTimeLimit_s;
    return verify_all_microbatches(programs, options).value();
  }

  /// Whether the Program is a member of one of the families, or of none because it is too short for it.
  static bool belongs(const Coverage& coverage, const Program& program) {
    const int m = program.pipeline().microbatches();
    return std::ranges::any_of(coverage.families, [&](const Family& family) {
      const PeriodicProgram& of = family.program;
      if (m % of.rule.period != of.remainder) return false;
      return m < of.microbatches(of.first) || check_member(of, program).has_value();
    });
  }

  static void check(const ScheduleParameters& parameters, const LoweringOptions& lowering,
                    const LaunchChain& launches) {
    const std::string name(GetParam().name);
    const Repetitions known = repetitions_of(name, parameters);
    const auto& repetition = launches.order == LaunchOrder::none ? known.queues : known.lists;
    ASSERT_TRUE(repetition.has_value());
    const ProgramFor programs = programs_of(name, parameters, lowering);
    const AllMicrobatchesReport report = ask(programs, known, launches);
    if (!report.coverage.repeats_from) {  // no periodic program is found, and nothing proved
      EXPECT_NE(launches.order, LaunchOrder::none) << report.coverage.uncovered.front();
      return;
    }
    const int last = *report.coverage.repeats_from + 2 * repetition->period + kFurther;
    for (int m = repetition->from; m <= last; ++m) {
      if (const auto program = programs(m)) {
        EXPECT_TRUE(belongs(report.coverage, *program)) << parameters.ranks << " ranks, m = " << m;
      }
    }
  }
};

bool has_ranks(const ScheduleInfo& info, int ranks) {
  return generate(info.name, {.ranks = ranks, .microbatches = 4 * ranks}).has_value();
}

TEST_P(RepetitionsOf, HoldForTheQueues) {
  for (const int p : {1, 2, 3}) {
    if (has_ranks(GetParam(), p)) check({.ranks = p}, {}, {});
  }
}

TEST_P(RepetitionsOf, HoldForTheLists) {
  for (const int p : {1, 2, 3, 4}) {
    if (has_ranks(GetParam(), p)) check({.ranks = p}, {}, any_transport().launches);
  }
}

TEST_P(RepetitionsOf, HoldForTheListsInEveryOrder) {
  for (const IssueOrder order : {IssueOrder::global, IssueOrder::early, IssueOrder::issue_ordered}) {
    LoweringOptions lowering;
    lowering.order = order;
    if (has_ranks(GetParam(), 2)) check({.ranks = 2}, lowering, any_transport().launches);
  }
}

/// Asks about parameters of which something is known and that the schedule accepts.
TEST_P(RepetitionsOf, HoldForEverySettingChunksAndSlices) {
  const ScheduleInfo& info = GetParam();
  std::vector<ScheduleParameters> all;
  for (const SettingInfo& setting : info.settings) {
    for (const std::string_view value : setting.examples)
      all.push_back({.ranks = 3, .settings = {{std::string(setting.name), std::string(value)}}});
  }
  if (info.max_chunks > 2) all.push_back({.ranks = 3, .chunks = 3});
  if (info.has_slices) all.push_back({.ranks = 3, .slices = 4});
  for (ScheduleParameters& parameters : all) {
    parameters.microbatches = 4 * parameters.ranks;
    if (!repetitions_of(std::string(info.name), parameters).lists || !generate(info.name, parameters))
      continue;
    check(parameters, {}, {});
    check(parameters, {}, any_transport().launches);
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, RepetitionsOf,
                         testing::ValuesIn(registered_schedules().begin(), registered_schedules().end()),
                         schedule_test_name);

}  // namespace
}  // namespace ppsim::test
