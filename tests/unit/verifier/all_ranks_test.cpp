#include "ppsim/verifier/parameterized/all_ranks.hpp"

#include <gtest/gtest.h>

#include "ppsim/core/ir/transports.hpp"
#include "support/generated.hpp"

namespace ppsim::test {
namespace {

ProgramForRanks for_ranks(const std::string& name, LoweringOptions options = {}) {
  return [=](int ranks, int microbatches) {
    return test::programs_of(name, ScheduleParameters{.ranks = ranks}, options)(microbatches);
  };
}

AllRanksReport ask(const std::string& name, const LoweringOptions& options = {},
                   const TransportCapabilities& transport = {}) {
  return verify_all_ranks(for_ranks(name, options), {}, transport,
                          [&](int ranks) { return repetitions_of(name, {.ranks = ranks}); })
      .value();
}

PeriodicProgram periodic(const std::string& name, int ranks) {
  const int m = 3 * ranks + 8;
  const ProgramForRanks programs = for_ranks(name);
  return find_periodic(programs(ranks, m).value(), programs(ranks, m + 1).value(), {}).value();
}

const char* const kAdmitted[] = {"gpipe", "1f1b",       "eager-1f1b", "zb-h1",
                                 "zb-h2", "looped-bfs", "seq-1f1b",   "forward-only"};

TEST(AllRanks, SchedulesWhoseRanksWaitAlikeAreProved) {
  for (const char* name : kAdmitted) {
    const AllRanksReport report = ask(name);
    EXPECT_TRUE(std::holds_alternative<Proved>(report.verdict)) << name;
    EXPECT_EQ(report.alone, (std::vector<int>{1, 2})) << name;
    EXPECT_EQ(to_lines(report.ranking).size(), report.ranking.roles.size()) << name;
  }
}

TEST(AllRanks, NothingIsProvedOfMicrobatchesOfWhichNothingIsKnown) {
  const AllRanksReport report = verify_all_ranks(for_ranks("1f1b")).value();
  EXPECT_NE(std::get<Unknown>(report.verdict).reason.find(kNotKnownToRepeat), std::string::npos);
}

TEST(AllRanks, MoreRanksThanWereComparedGoOnAlike) {
  for (const char* name : kAdmitted) {
    const auto few = find_roles({periodic(name, 3), periodic(name, 4), periodic(name, 5)});
    const auto many =
        find_roles({periodic(name, 3), periodic(name, 4), periodic(name, 5), periodic(name, 13)});
    ASSERT_TRUE(few.has_value() && many.has_value()) << name;
    EXPECT_EQ(few->waits, many->waits) << name;
  }
}

/// The numbers of the ranking on 13 ranks, of which it was not made: those of a Ranking for all microbatches.
TEST(AllRanks, TheRankingHoldsForMoreRanks) {
  const RankingForAll ranking = ask("zb-h1").ranking;
  constexpr int kRanks = 13;
  for (const RoleWait& wait : ranking.waits) {
    const Role& before = ranking.roles[static_cast<std::size_t>(wait.before)];
    const Role& after = ranking.roles[static_cast<std::size_t>(wait.after)];
    for (std::int64_t r = wait.first.at(0, kRanks); r <= wait.last.at(0, kRanks); ++r) {
      const std::int64_t other = r + wait.other.at(r, kRanks);
      // Instance 0 waits for instance shift - 1 of the other.
      EXPECT_GT(after.offset.at(r, kRanks),
                before.offset.at(other, kRanks) + ranking.scale * (wait.shift.at(r, kRanks) - 1));
    }
  }
}

TEST(AllRanks, AScheduleThatSomeRanksCannotRunIsUnknownAndSaysWhichRanks) {
  const AllRanksReport report = verify_all_ranks(for_ranks("dualpipe")).value();
  EXPECT_EQ(
      std::get<Unknown>(report.verdict).reason,
      "a proof for all ranks needs every number of them, and on 1 ranks the schedule accepts no number of "
      "microbatches up to 1000");
}

TEST(AllRanks, DeferredReceivesAreRefutedWithTheFewestRanks) {
  LoweringOptions options;
  options.order = IssueOrder::early;
  options.communicators = CommunicatorPolicy::per_rank;
  const AllRanksReport report = ask("1f1b", options);
  EXPECT_TRUE(std::holds_alternative<Refuted>(report.verdict));
  EXPECT_EQ(report.ranks, 2);
  EXPECT_EQ(report.microbatches, 2);
}

/// A queue for each directed edge: a rank has four operations in flight at most, two at either end.
TEST(AllRanks, AResidencyLimitThatNoRankReachesChangesNothing) {
  const AllRanksReport report = ask("1f1b", {}, {.residency = 4});
  EXPECT_TRUE(std::holds_alternative<Proved>(report.verdict));
  EXPECT_EQ(report.ranking.waits, ask("1f1b").ranking.waits);
}

/// Each of few ranks is proved under the limit, and the ranking knows nothing of places.
TEST(AllRanks, AResidencyLimitThatCanBeReachedIsNotProved) {
  const AllRanksReport report = ask("gpipe", {}, {.residency = 3});
  EXPECT_EQ(
      std::get<Unknown>(report.verdict).reason,
      "holds on up to 8 ranks, where a rank has up to 4 operations in flight; a residency limit that can "
      "be reached is not followed over all ranks");
}

TEST(AllRanks, AResidencyLimitIsRefutedWithTheFewestRanks) {
  const AllRanksReport report = ask("1f1b", {}, {.residency = 2});
  ASSERT_TRUE(std::holds_alternative<Refuted>(report.verdict));
  EXPECT_EQ(report.ranks, 3);
  EXPECT_EQ(report.microbatches, 4);
}

TEST(AllRanks, OrderedLaunchesAreFollowedWhereTheyRepeatFromTheFirstMicrobatchOn) {
  for (const char* name : {"any", "nccl"})
    EXPECT_TRUE(std::holds_alternative<Proved>(ask("forward-only", {}, transport(name).value()).verdict))
        << name;
  // The order of launches in warm-up and cool-down is another one.
  EXPECT_EQ(std::get<Unknown>(ask("1f1b", {}, transport("nccl").value()).verdict).reason,
            "a proof for all ranks needs one periodic program for all microbatches, and on 3 ranks it begins "
            "at m = 6");
}

/// Receives two computations ahead: free of deadlock with independent queues, and not on NCCL.
TEST(AllRanks, OrderedLaunchesAreRefutedWithTheFewestRanks) {
  LoweringOptions options;
  options.order = IssueOrder::early;
  options.early = 2;
  EXPECT_FALSE(std::holds_alternative<Refuted>(ask("gpipe", options).verdict));
  const AllRanksReport report = ask("gpipe", options, transport("nccl").value());
  ASSERT_TRUE(std::holds_alternative<Refuted>(report.verdict));
  EXPECT_EQ(report.ranks, 2);
}

TEST(AllRanks, APeriodThatGrowsWithTheRanksIsUnknown) {
  const AllRanksReport report = ask("interleaved-1f1b");
  EXPECT_TRUE(std::holds_alternative<Unknown>(report.verdict));
}

TEST(AllRanks, OneScheduleIsNotTakenForAnother) {
  const auto mixed = find_roles({periodic("1f1b", 3), periodic("1f1b", 4), periodic("eager-1f1b", 5)});
  ASSERT_FALSE(mixed.has_value());
  EXPECT_EQ(mixed.error().code, ErrorCode::refused);
}

}  // namespace
}  // namespace ppsim::test
