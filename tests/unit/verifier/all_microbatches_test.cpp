#include "ppsim/verifier/parameterized/all_microbatches.hpp"

#include <gtest/gtest.h>

#include "ppsim/core/execution/naive_executor.hpp"
#include "ppsim/verifier/parameterized/ranking.hpp"
#include "support/generated.hpp"

namespace ppsim::test {
namespace {

ScheduleParameters ranks(int count) { return {.ranks = count}; }

AllMicrobatchesReport ask(const ProgramFor& programs, const AllMicrobatchesOptions& options = {}) {
  return verify_all_microbatches(programs, options).value();
}

/// The same with what is known of a schedule of the registry.
AllMicrobatchesReport ask(const std::string& name, const ScheduleParameters& parameters,
                          AllMicrobatchesOptions options = {}, const LoweringOptions& lowering = {}) {
  options.repetitions = repetitions_of(name, parameters);
  return ask(programs_of(name, parameters, lowering), options);
}

/// The smallest number of microbatches that breaks a property; 0: it is not refuted.
int breaks_at(const AllMicrobatchesReport& report, Property property) {
  const AllMicrobatchesResult* result = report.find(property);
  return std::holds_alternative<Refuted>(result->verdict) ? result->microbatches : 0;
}

PeriodicProgram periodic(const ProgramFor& programs, int microbatches, const SeriesRule& rule = {}) {
  return find_periodic(programs(microbatches).value(), programs(microbatches + rule.period).value(), rule)
      .value();
}

int series_of(const PeriodicProgram& family, int rank, OpKind kind) {
  for (std::size_t s = 0; s < family.series.size(); ++s) {
    if (family.series[s].rank == RankId(rank) && family.series[s].actions.front().kind == kind)
      return static_cast<int>(s);
  }
  return -1;
}

TEST(Periodic, OneFOneBIsOneSeriesForEachActionOfARank) {
  const PeriodicProgram family = periodic(programs_of("1f1b", ranks(4)), 12);
  // F and B of four ranks, and six ends of transfers in each direction.
  EXPECT_EQ(family.series.size(), 20u);
  EXPECT_EQ(family.events.size(), 14u);
  for (const Series& series : family.series) {
    EXPECT_EQ(series.count, (AffineCount{0, 1}));
    EXPECT_EQ(series.stride, 1);
  }
}

TEST(Periodic, TheWarmUpIsAWaitOfTheFirstBackward) {
  const PeriodicProgram family = periodic(programs_of("1f1b", ranks(4)), 12);
  for (int r = 0; r < 4; ++r) {
    // B(i) of rank r follows F(i + 3 - r), that is behind the first i + 4 - r of them.
    const SeriesWait warmup{
        series_of(family, r, OpKind::forward), series_of(family, r, OpKind::backward), {4 - r, 0}};
    EXPECT_NE(std::find(family.waits.begin(), family.waits.end(), warmup), family.waits.end()) << r;
  }
}

TEST(Periodic, TheFirstBackwardOfGpipeWaitsForAllForwards) {
  const PeriodicProgram family = periodic(programs_of("gpipe", ranks(2)), 9);
  const SeriesWait all{series_of(family, 0, OpKind::forward), series_of(family, 0, OpKind::backward), {0, 1}};
  EXPECT_NE(std::find(family.waits.begin(), family.waits.end(), all), family.waits.end());
}

TEST(Periodic, EveryNumberIsAMemberDownToOne) {
  const ProgramFor programs = programs_of("zb-h2", ranks(3));
  const PeriodicProgram family = periodic(programs, 20);
  for (int m = 1; m < 30; ++m) EXPECT_TRUE(check_member(family, programs(m).value()).has_value()) << m;
}

TEST(Periodic, AProgramWithTwoInstructionsInAnotherOrderIsNoMember) {
  const ProgramFor programs = programs_of("1f1b", ranks(2));
  const PeriodicProgram family = periodic(programs, 12);
  const ProgramFor swapped = changed(programs, [](ProgramDraft& draft, int) {
    // Transfers of one direction in another order: still a Program, not this one.
    auto& row = draft.rows[RankId(0)];
    const auto send = [&](int m) {
      return std::find_if(row.begin(), row.end(), [&](const InstructionDraft& i) {
        return i.actions.front() == make_transfer(OpKind::send_forward, 0, m, 1);
      });
    };
    std::swap(send(6)->actions, send(7)->actions);
  });
  EXPECT_FALSE(check_member(family, swapped(12).value()).has_value());
}

TEST(Periodic, SchedulesOfDifferentLengthAreNotTakenForOne) {
  const auto found = find_periodic(programs_of("interleaved-1f1b", ranks(4))(20).value(),
                                   programs_of("interleaved-1f1b", ranks(4))(21).value(), {});
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().code, ErrorCode::refused);
}

TEST(Ranking, EveryWaitOfOneFOneBDecreasesIt) {
  const PeriodicProgram family = periodic(programs_of("1f1b", ranks(8)), 20);
  auto ranking = find_ranking(family);
  ASSERT_TRUE(ranking.has_value());
  EXPECT_TRUE(ranks_all_waits(family, *ranking));
  const int last = family.series[static_cast<std::size_t>(series_of(family, 7, OpKind::forward))].event;
  ranking->offset[static_cast<std::size_t>(last)] = 0;
  EXPECT_FALSE(ranks_all_waits(family, *ranking));
}

TEST(Ranking, GpipeNeedsASecondPhase) {
  const PeriodicProgram family = periodic(programs_of("gpipe", ranks(2)), 9);
  const auto ranking = find_ranking(family);
  ASSERT_TRUE(ranking.has_value());
  const auto phase = [&](OpKind kind) {
    const Series& series = family.series[static_cast<std::size_t>(series_of(family, 0, kind))];
    return ranking->phase[static_cast<std::size_t>(series.event)];
  };
  EXPECT_EQ(phase(OpKind::forward), 0);
  EXPECT_EQ(phase(OpKind::backward), 1);
}

/// PyTorch's runtime of 1F1B without batched transfers: each receive stands before what needs it.
LoweringOptions deferred(CommunicatorPolicy policy) {
  LoweringOptions options;
  options.order = IssueOrder::early;
  options.communicators = policy;
  return options;
}

TEST(AllMicrobatches, DeferredReceivesHangFromTwoMicrobatchesOn) {
  for (const int p : {2, 4, 7}) {
    const ProgramFor programs = programs_of("1f1b", ranks(p), deferred(CommunicatorPolicy::per_rank));
    const AllMicrobatchesReport report = ask(programs);
    EXPECT_EQ(breaks_at(report, Property::deadlock_free), 2) << p;
    EXPECT_EQ(run_naively(programs(2).value(), rendezvous(), {}).outcome, NaiveRun::Outcome::deadlock);
    EXPECT_EQ(run_naively(programs(1).value(), rendezvous(), {}).outcome, NaiveRun::Outcome::finished);
  }
}

TEST(AllMicrobatches, DeferredReceivesRunOnDirectedEdges) {
  const AllMicrobatchesReport report = ask("1f1b", ranks(4), {}, deferred(CommunicatorPolicy::per_edge));
  EXPECT_TRUE(report.proved(Property::matched));
  EXPECT_TRUE(report.proved(Property::deadlock_free));
}

/// Rank 0 receives the gradient before it sends, from microbatch `from` on, on the queue of its only pair.
ProgramFor swapped_pair(int from) {
  LoweringOptions options;
  options.communicators = CommunicatorPolicy::per_pair;
  return changed(programs_of("1f1b", ranks(2), options), [from](ProgramDraft& draft, int microbatches) {
    for (int m = from; m < microbatches; ++m) {
      if (!swap_neighbours(draft.rows[RankId(0)], make_transfer(OpKind::send_forward, 0, m, 1),
                           make_transfer(OpKind::recv_backward, 0, m - 1, 1)))
        throw std::runtime_error("the order of 1F1B has changed");
    }
  });
}

TEST(AllMicrobatches, ASwappedPairInTheSteadyStateIsRefutedWithTheSmallestNumber) {
  for (const int from : {2, 4, 7}) {
    const ProgramFor programs = swapped_pair(from);
    const AllMicrobatchesReport report = ask(programs);
    EXPECT_TRUE(std::holds_alternative<Refuted>(report.find(Property::deadlock_free)->verdict));
    EXPECT_EQ(breaks_at(report, Property::deadlock_free), from + 1);
    EXPECT_EQ(run_naively(programs(from).value(), rendezvous(), {}).outcome, NaiveRun::Outcome::finished);
    EXPECT_EQ(run_naively(programs(from + 1).value(), rendezvous(), {}).outcome, NaiveRun::Outcome::deadlock);
  }
}

TEST(AllMicrobatches, ASwappedPairHasNoRanking) {
  EXPECT_FALSE(find_ranking(periodic(swapped_pair(2), 12, {1, 4, 4})).has_value());
}

/// The messages of rank 0 for microbatches 4 and 5 change places where there are more than `above`.
ProgramFor mismatch_above(int above) {
  return changed(programs_of("1f1b", ranks(3)), [above](ProgramDraft& draft, int microbatches) {
    if (microbatches <= above) return;
    for (InstructionDraft& instruction : draft.rows[RankId(0)]) {
      Action& action = instruction.actions.front();
      if (action.kind == OpKind::send_forward && (action.microbatch == 4 || action.microbatch == 5))
        action.microbatch = 9 - action.microbatch;
    }
  });
}

TEST(AllMicrobatches, AMismatchOfManyMicrobatchesOnlyIsRefutedWithTheSmallestNumber) {
  EXPECT_EQ(breaks_at(ask(mismatch_above(5)), Property::matched), 6);
}

TEST(AllMicrobatches, AScheduleThatChangesLateIsSeenFarAhead) {
  const AllMicrobatchesReport report = ask(mismatch_above(30));
  EXPECT_EQ(breaks_at(report, Property::matched), 31);
}

/// GPipe on one queue, where rank 0 swaps what stands at a position of its list. That is the last send and
/// the first receive, which hangs, for one number only; for all others it changes nothing that matters.
ProgramFor hangs_at(int microbatches) {
  LoweringOptions options;
  options.communicators = CommunicatorPolicy::per_pair;
  return with_swapped_kinds(programs_of("gpipe", ranks(2), options),
                            {.rank = 0, .position = static_cast<std::size_t>(2 * microbatches - 1)});
}

TEST(AllMicrobatches, AnOrderThatHangsForOneNumberOnlyIsRefuted) {
  for (const int hangs : {3, 9, 12, 14, 16, 17, 20, 33, 64})
    EXPECT_EQ(breaks_at(ask(hangs_at(hangs)), Property::deadlock_free), hangs);
}

TEST(AllMicrobatches, NothingIsProvedOfNumbersOfWhichNothingIsKnown) {
  for (const int hangs : {66, 70, 90, 100, 1000, 100'000}) {
    const AllMicrobatchesReport report = ask(hangs_at(hangs));
    const AllMicrobatchesResult* result = report.find(Property::deadlock_free);
    EXPECT_FALSE(std::holds_alternative<Proved>(result->verdict)) << hangs;
    EXPECT_LT(result->holds_up_to, hangs);
    EXPECT_FALSE(report.proved(Property::matched)) << hangs;
  }
  const AllMicrobatchesReport report = ask(hangs_at(1000));
  const AllMicrobatchesResult* result = report.find(Property::deadlock_free);
  EXPECT_GE(result->holds_up_to, 64);
  EXPECT_EQ(result->holds_up_to, report.coverage.compared_to);
  EXPECT_EQ(std::get<Unknown>(result->verdict).reason,
            "holds for each m up to " + std::to_string(result->holds_up_to) + ", but " + kNotKnownToRepeat);
}

TEST(AllMicrobatches, WhatIsKnownDecidesForEveryNumber) {
  AllMicrobatchesOptions options;
  options.repetitions.queues = Repetition{.from = 101, .period = 1};
  EXPECT_EQ(breaks_at(ask(hangs_at(100), options), Property::deadlock_free), 100);
  options.sample_limit = 20'000;  // too few to look at 100 numbers
  const AllMicrobatchesReport report = ask(hangs_at(100), options);
  EXPECT_FALSE(report.proved(Property::deadlock_free));
  EXPECT_NE(report.coverage.uncovered.front().find(kSampleLimit), std::string::npos);
}

TEST(AllMicrobatches, WhatIsKnownOfQueuesSaysNothingOfLaunches) {
  AllMicrobatchesOptions options;
  options.repetitions = repetitions_of("1f1b", ranks(2));
  options.repetitions.lists.reset();
  EXPECT_TRUE(ask(programs_of("1f1b", ranks(2)), options).proved(Property::deadlock_free));
  options.capabilities.launches.order = LaunchOrder::start;
  EXPECT_FALSE(ask(programs_of("1f1b", ranks(2)), options).proved(Property::deadlock_free));
}

TEST(AllMicrobatches, TwoResidentKernelsHangFourRanksThreeDoNot) {
  const ProgramFor programs = programs_of("1f1b", ranks(4));
  AllMicrobatchesOptions options;
  options.properties = {Property::deadlock_free};
  options.capabilities.residency = 2;
  const AllMicrobatchesReport two = ask(programs, options);
  const int smallest = breaks_at(two, Property::deadlock_free);
  ASSERT_GT(smallest, 1);
  for (int m = 1; m <= smallest; ++m)
    EXPECT_EQ(can_deadlock(programs(m).value(), options.capabilities, 200'000), m == smallest) << m;
  options.capabilities.residency = 3;
  const AllMicrobatchesReport three = ask("1f1b", ranks(4), options);
  EXPECT_TRUE(three.proved(Property::deadlock_free));
  EXPECT_EQ(three.find(Property::deadlock_free)->method, "smt");
}

SizeTable some_sizes() {
  SizeTable sizes = activation_size_table(10);
  for (const TensorKind kind :
       {TensorKind::boundary_output, TensorKind::incoming_gradient, TensorKind::outgoing_gradient})
    sizes.set({.kind = kind}, 1);
  return sizes;
}

TEST(AllMicrobatches, MemoryOfOneFOneBDoesNotGrow) {
  AllMicrobatchesOptions options;
  options.sizes = activation_size_table(10);
  const AllMicrobatchesReport report = ask("1f1b", ranks(4), options);
  ASSERT_TRUE(report.proved(Property::memory));
  ASSERT_EQ(report.memory.size(), 4u);
  // min(p - r, m) activations: Narayanan et al., SC 2021.
  for (int r = 0; r < 4; ++r)
    EXPECT_EQ(report.memory[static_cast<std::size_t>(r)].bytes, (AffineCount{10 * (4 - r), 0}));
}

TEST(AllMicrobatches, MemoryOfGpipeGrowsByOneActivationAMicrobatch) {
  AllMicrobatchesOptions options;
  options.sizes = activation_size_table(10);
  const AllMicrobatchesReport report = ask("gpipe", ranks(3), options);
  ASSERT_TRUE(report.proved(Property::memory));
  for (const MemoryForAll& bound : report.memory) EXPECT_EQ(bound.bytes, (AffineCount{0, 10}));
}

/// Sizes without a common divisor, and an input for each microbatch that exists from the start.
SizeTable odd_sizes() {
  SizeTable sizes = activation_size_table(104'729);
  sizes.set({.kind = TensorKind::boundary_input}, 1009);
  sizes.set({.kind = TensorKind::boundary_output}, 611);
  sizes.set({.kind = TensorKind::incoming_gradient}, 7'919);
  sizes.set({.kind = TensorKind::outgoing_gradient}, 13);
  return sizes;
}

TEST(AllMicrobatches, OddSizesAreDecidedByShortMembers) {
  AllMicrobatchesOptions options;
  options.properties = {Property::memory};
  options.sizes = odd_sizes();
  for (const std::string name : {"eager-1f1b", "zb-h2", "interleaved-1f1b", "pipedream"}) {
    const ProgramFor programs = programs_of(name, ranks(4));
    const AllMicrobatchesReport report = ask(name, ranks(4), options);
    ASSERT_TRUE(report.proved(Property::memory)) << name;
    EXPECT_EQ(report.find(Property::memory)->method, "flow") << name;
    VerifyOptions one;
    one.properties = {Property::memory};
    one.sizes = options.sizes;
    for (const int m : {1, 4, 8, 16, 28, 60}) {
      const auto program = programs(m);
      if (!program) continue;
      const VerifyReport at = verify(*program, one);
      for (const MemoryForAll& bound : report.memory)
        EXPECT_LE(at.memory[bound.rank.index()].bytes, bound.bytes.at(m / bound.period)) << name << " " << m;
    }
    EXPECT_GT(report.memory.front().bytes.per_period, 0) << name;
    EXPECT_EQ(report.memory.back().bytes.per_period, 0) << name;
  }
}

TEST(AllMicrobatches, ALimitThatFarMicrobatchesMayExceedIsUnknown) {
  AllMicrobatchesOptions options;
  options.properties = {Property::memory};
  options.sizes = odd_sizes();
  options.memory_limit = 50'000'000'000;
  const AllMicrobatchesReport report = ask("1f1b", ranks(2), options);
  const auto* unknown = std::get_if<Unknown>(&report.find(Property::memory)->verdict);
  ASSERT_NE(unknown, nullptr);
  EXPECT_EQ(unknown->reason.rfind("within the limit for all m below ", 0), 0U) << unknown->reason;
}

TEST(AllMicrobatches, AMemoryLimitIsRefutedWithTheSmallestNumber) {
  AllMicrobatchesOptions options;
  options.sizes = activation_size_table(10);
  options.memory_limit = 35;
  EXPECT_EQ(breaks_at(ask("1f1b", ranks(6), options), Property::memory), 4);
  EXPECT_EQ(breaks_at(ask("gpipe", ranks(2), options), Property::memory), 4);
  options.memory_limit = 60;
  EXPECT_TRUE(ask("1f1b", ranks(6), options).proved(Property::memory));
}

TEST(AllMicrobatches, TheWorstCaseIsMoreThanTheSteadyStateNeeds) {
  // The bound is reached, and by no number before the warm-up of rank 0 is full.
  AllMicrobatchesOptions options;
  options.sizes = some_sizes();
  const ProgramFor programs = programs_of("zb-h1", ranks(4));
  const AllMicrobatchesReport report = ask("zb-h1", ranks(4), options);
  ASSERT_TRUE(report.proved(Property::memory));
  for (const MemoryForAll& bound : report.memory) {
    VerifyOptions one;
    one.properties = {Property::memory};
    one.sizes = options.sizes;
    const VerifyReport at = verify(programs(bound.reached_at).value(), one);
    EXPECT_EQ(at.memory[bound.rank.index()].bytes, bound.bytes.at(bound.reached_at / bound.period));
  }
}

TEST(AllMicrobatches, WhatTheScheduleRefusesIsNoNumberOfMicrobatches) {
  const AllMicrobatchesReport report = ask("chimera", ranks(2));
  EXPECT_TRUE(report.proved(Property::deadlock_free));
  for (const int m : report.coverage.refused) EXPECT_EQ(m % 2, 1);
}

TEST(AllMicrobatches, NoNumberOfMicrobatchesIsAnError) {
  const auto report = verify_all_microbatches(programs_of("chimera", ranks(3)), {});
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().code, ErrorCode::bad_argument);
}

TEST(AllMicrobatches, APropertyWithoutAMethodIsAnError) {
  AllMicrobatchesOptions options;
  options.properties = {Property::ascending_accumulation};
  EXPECT_FALSE(verify_all_microbatches(programs_of("1f1b", ranks(2)), options).has_value());
}

TEST(AllMicrobatches, ATimeLimitThatIsOverIsUnknown) {
  AllMicrobatchesOptions options;
  options.capabilities.residency = 3;
  options.timeout_s = 0;
  const AllMicrobatchesReport report = ask("1f1b", ranks(4), options);
  const auto* unknown = std::get_if<Unknown>(&report.find(Property::deadlock_free)->verdict);
  ASSERT_NE(unknown, nullptr);
  EXPECT_EQ(unknown->reason, "time limit reached");
}

TEST(AllMicrobatches, TheReportSaysWhatWasCompared) {
  const AllMicrobatchesReport report = ask("1f1b-v", ranks(2));
  for (const Family& family : report.coverage.families) {
    EXPECT_GE(family.agrees.size(), 3u);
    EXPECT_EQ(family.agrees.front(), family.program.microbatches(family.program.first));
  }
  EXPECT_FALSE(to_lines(report.coverage).empty());
}

}  // namespace
}  // namespace ppsim::test
