#include "ppsim/planner/repetitions.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "ppsim/core/ir/transports.hpp"
#include "ppsim/verifier/parameterized/all_microbatches.hpp"
#include "support/generated.hpp"

namespace ppsim::test {
namespace {

constexpr int kRanks = 4;

/// F and B of stage s take `step` more than those of stage s - 1.
CostTable costs_rising_by(Nanoseconds step) {
  CostTable costs;
  for (int s = 0; s < kRanks; ++s) {
    costs.set({.kind = OpKind::forward, .subject = s}, 1000 + step * s);
    costs.set({.kind = OpKind::backward, .subject = s}, 2000 + step * s);
  }
  return costs;
}

CostedScheduleFor costed(const std::string& name, const CostTable& costs) {
  return [=](int microbatches) -> Expected<CostedSchedule> {
    auto schedule = generate(name, {.ranks = kRanks, .microbatches = microbatches});
    if (!schedule) return tl::unexpected(schedule.error());
    return CostedSchedule{*std::move(schedule), costs};
  };
}

std::optional<Repetition> lists(const std::string& name, const CostTable& costs) {
  return lists_under_costs(*repetitions_of(name, {.ranks = kRanks}).lists, costed(name, costs));
}

ProgramFor lowered(const std::string& name, const CostTable& costs) {
  return [=](int microbatches) -> Expected<Program> {
    const auto schedule = generate(name, {.ranks = kRanks, .microbatches = microbatches});
    if (!schedule) return tl::unexpected(schedule.error());
    return lower(*schedule, {}, &costs);
  };
}

AllMicrobatchesReport ask(const std::string& name, const CostTable& costs) {
  AllMicrobatchesOptions options;
  options.properties = {Property::deadlock_free};
  options.capabilities = any_transport();
  options.repetitions.lists = lists(name, costs);
  return verify_all_microbatches(lowered(name, costs), options).value();
}

TEST(ListsUnderCosts, RepeatWhereEveryRankKeepsPaceWithTheSlowest) {
  for (const Nanoseconds step : {0, 1, 7, 100}) {
    const AllMicrobatchesReport report = ask("1f1b", costs_rising_by(step));
    EXPECT_TRUE(report.proved(Property::deadlock_free)) << step;
    const PeriodicProgram& last = report.coverage.families.back().program;
    for (const int m : {200, 301, 1003}) {
      if (m % last.rule.period == last.remainder) {
        EXPECT_TRUE(check_member(last, lowered("1f1b", costs_rising_by(step))(m).value()).has_value()) << m;
      }
    }
  }
}

TEST(ListsUnderCosts, DoNotRepeatWhereOneRankGoesAheadOfAnother) {
  // A rank of GPipe runs all its F as fast as it can: the first one is a whole F ahead after 1000 of them.
  EXPECT_FALSE(lists("gpipe", costs_rising_by(1)).has_value());
  EXPECT_TRUE(lists("gpipe", costs_rising_by(0)).has_value());
  const AllMicrobatchesReport report = ask("gpipe", costs_rising_by(1));
  EXPECT_FALSE(report.proved(Property::deadlock_free));
  const auto& families = report.coverage.families;
  ASSERT_EQ(families.size(), 1U);
  EXPECT_TRUE(check_member(families.front().program, lowered("gpipe", costs_rising_by(1))(900).value()));
  EXPECT_FALSE(check_member(families.front().program, lowered("gpipe", costs_rising_by(1))(1100).value()));
}

TEST(ListsUnderCosts, RepeatLaterThanAtUnitCosts) {
  const Repetition at_unit_costs = *repetitions_of("chimera", {.ranks = kRanks}).lists;
  const auto found = lists("chimera", costs_rising_by(0));
  ASSERT_TRUE(found.has_value());
  EXPECT_GT(found->from, at_unit_costs.from);
  EXPECT_EQ(found->period % at_unit_costs.period, 0);
}

TEST(ListsUnderCosts, AreUnknownOfAScheduleThatDoesNotExist) {
  const CostedScheduleFor none = [](int) -> Expected<CostedSchedule> {
    return make_error(ErrorCode::bad_argument, "no such schedule");
  };
  EXPECT_FALSE(lists_under_costs({}, none).has_value());
}

}  // namespace
}  // namespace ppsim::test
