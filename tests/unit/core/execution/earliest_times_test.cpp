#include "ppsim/core/lowering/earliest_times.hpp"

#include <gtest/gtest.h>
#include <sstream>

#include "ppsim/core/io/text.hpp"
#include "support/programs.hpp"
#include "support/row_text.hpp"

namespace ppsim {
namespace {

using test::schedule_of;

CostTable costs() {
  CostTable table;
  table.set({OpKind::forward}, 3);
  table.set({OpKind::backward}, 5);
  table.set({OpKind::overlap}, 7);
  table.set({OpKind::send_forward}, 2);
  table.set({OpKind::send_backward}, 1);
  return table;
}

/// "0F0 0-3" of every step in the order of the walk.
std::string times_text(const Schedule& schedule, const CostTable& table) {
  const auto times = earliest_times(schedule, table);
  if (!times) return to_string(times.error());
  std::ostringstream text;
  for (const EarliestTimes::Item& item : times->walk) {
    const Cell& cell = schedule.row(item.rank)[static_cast<std::size_t>(item.position)];
    text << cell_text(schedule.pipeline(), cell) << ' ' << item.start << '-' << item.end << ", ";
  }
  text << "makespan " << times->makespan;
  return text.str();
}

TEST(EarliestTimes, TransfersDelayConsumersOnOtherRanks) {
  const Schedule schedule = schedule_of(test::chain(2, 2, 2), {"0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"});
  EXPECT_EQ(times_text(schedule, costs()),
            "0F0 0-3, 1F0 5-8, 0F1 3-6, 1B0 8-13, 0B0 14-19, 1F1 13-16, 1B1 16-21, 0B1 22-27, makespan 27");
}

TEST(EarliestTimes, StagesOfOneRankHandOverAtOnce) {
  EXPECT_EQ(times_text(schedule_of(test::chain(1, 2, 1), {"0F0 1F0 1B0 0B0"}), costs()),
            "0F0 0-3, 1F0 3-6, 1B0 6-11, 0B0 11-16, makespan 16");
}

TEST(EarliestTimes, AnOverlapStartsWhenBothMayAndTakesItsOwnTime) {
  const Schedule schedule = schedule_of(test::chain(1, 1, 2), {"0F0 (0F1;0B0)OVERLAP_F_B 0B1"});
  EXPECT_EQ(times_text(schedule, costs()), "0F0 0-3, (0F1;0B0)OVERLAP_F_B 3-10, 0B1 10-15, makespan 15");
}

TEST(EarliestTimes, IdleCellsTakeNoTimeAndKeepPositions) {
  ScheduleBuilder builder("idle", test::chain(1, 1, 1));
  builder.add(RankId(0), Cell()).add(OpKind::forward, StageId(0), MicrobatchId(0)).add(RankId(0), Cell());
  const auto schedule = builder.build();
  ASSERT_TRUE(schedule.has_value());
  const auto times = earliest_times(*schedule, costs());
  ASSERT_TRUE(times.has_value());
  ASSERT_EQ(times->walk.size(), 1U);
  EXPECT_EQ(times->walk[0].position, 1);
  EXPECT_EQ(times->walk[0].start, 0);
}

TEST(EarliestTimes, ARowThatWaitsForItselfIsADeadlock) {
  const Schedule schedule = schedule_of(test::chain(2, 2, 2), {"0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1"});
  const auto times = earliest_times(schedule, costs());
  ASSERT_FALSE(times.has_value());
  EXPECT_EQ(times.error().code, ErrorCode::deadlock);
}

// However far the walk has come on a rank before the others get to the collective: 0F1 and 0F2 pass it.
TEST(EarliestTimes, WhatPassesACollectiveDoesNotDelayIt) {
  PipelineSpec spec{.ranks = 2, .stages = 4, .microbatches = 3};
  spec.placement = {RankId(0), RankId(1), RankId(1), RankId(1)};
  spec.collectives = {{"barrier", {RankId(0), RankId(1)}}};
  const Schedule schedule = schedule_of(
      Pipeline::make(spec).value(),
      {"0F0 0COLL0 0F1 0F2 0COLL1 0COLL2", "1F0 2F0 3F0 0COLL0 1F1 2F1 3F1 0COLL1 1F2 2F2 3F2 0COLL2"});
  CostTable table;
  table.set({OpKind::forward, 0}, 10);
  const std::string text = times_text(schedule, table);
  EXPECT_NE(text.find("0COLL0 10-10"), std::string::npos) << text;
}

// Not so a collective between passes: these say when it is due, wherever it stands.
TEST(EarliestTimes, ACollectiveBetweenPassesWaitsForThemAlone) {
  PipelineSpec spec{.ranks = 1, .stages = 2, .microbatches = 1};
  spec.edges = {{StageId(0), StageId(1)}};
  spec.collectives = {{.name = "sum",
                       .members = {RankId(0)},
                       .after = {OpKind::forward, {StageId(0)}},
                       .before = {OpKind::backward, {StageId(0)}}}};
  const Schedule schedule = schedule_of(Pipeline::make(spec).value(), {"0F0 1F0 1B0 0COLL0 0B0"});
  const std::string text = times_text(schedule, costs());
  EXPECT_NE(text.find("0COLL0 3-3"), std::string::npos) << text;
}

TEST(EarliestTimes, TheMostSpecificCostWins) {
  CostTable table = costs();
  table.set({OpKind::forward, 1}, 10);
  table.set({OpKind::send_forward, 0, 1}, 20);
  EXPECT_EQ(times_text(schedule_of(test::chain(2, 2, 1), {"0F0", "1F0"}), table),
            "0F0 0-3, 1F0 23-33, makespan 33");
}

}  // namespace
}  // namespace ppsim
