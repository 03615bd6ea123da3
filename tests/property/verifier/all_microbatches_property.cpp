#include <gtest/gtest.h>

#include "ppsim/core/execution/naive_executor.hpp"
#include "ppsim/verifier/parameterized/all_microbatches.hpp"
#include "support/budget.hpp"
#include "support/draw_parameters.hpp"
#include "support/generated.hpp"

namespace ppsim::test {
namespace {

class AllMicrobatchesOf : public testing::TestWithParam<ScheduleInfo> {
 protected:
  static AllMicrobatchesReport ask(int ranks, AllMicrobatchesOptions options) {
    const std::string name(GetParam().name);
    options.timeout_s = kNoTimeLimit_s;
    options.repetitions = repetitions_of(name, {.ranks = ranks});
    return verify_all_microbatches(programs_of(name, {.ranks = ranks}), options).value();
  }
};

VerifyReport ask_one(const Program& program, const AllMicrobatchesOptions& options) {
  VerifyOptions one;
  one.properties = options.properties;
  one.capabilities = options.capabilities;
  one.sizes = options.sizes;
  return verify(program, one);
}

constexpr int kUpTo = 20;

TEST_P(AllMicrobatchesOf, RunsForEveryNumberAndSoForEachOne) {
  AllMicrobatchesOptions options;
  options.properties = {Property::matched, Property::deadlock_free};
  for (const int p : {2, 4}) {
    const ProgramFor programs = programs_of(std::string(GetParam().name), {.ranks = p});
    const AllMicrobatchesReport report = ask(p, options);
    ASSERT_TRUE(report.coverage.uncovered.empty()) << p << ": " << report.coverage.uncovered.front();
    for (const AllMicrobatchesResult& result : report.results)
      EXPECT_TRUE(std::holds_alternative<Proved>(result.verdict)) << result.property << " on " << p;
    for (int m = 1; m <= kUpTo; ++m) {
      if (const auto program = programs(m)) {
        EXPECT_TRUE(ask_one(*program, options).all_proved()) << p << " ranks, m = " << m;
      }
    }
  }
}

/// Where sends are eager, SENDs wait for no RECV and may need more.
class AllMicrobatchesMemoryOf : public AllMicrobatchesOf {
 protected:
  static AllMicrobatchesOptions memory_options(bool eager) {
    AllMicrobatchesOptions options;
    options.properties = {Property::memory};
    options.capabilities.eager = eager;
    options.sizes = activation_size_table(10);
    options.sizes->set({.kind = TensorKind::incoming_gradient}, 3);
    options.sizes->set({.kind = TensorKind::boundary_output}, 7);
    options.sizes->set({.kind = TensorKind::outgoing_gradient}, 2);
    return options;
  }

  static void needs_what_the_worst_number_needs(const AllMicrobatchesOptions& options) {
    const ProgramFor programs = programs_of(std::string(GetParam().name), {.ranks = 2});
    const AllMicrobatchesReport report = ask(2, options);
    ASSERT_TRUE(report.proved(Property::memory));
    ASSERT_EQ(report.memory.size(), 2u);
    for (const MemoryForAll& bound : report.memory) {
      const auto need = [&](int m) {
        return ask_one(programs(m).value(), options).memory.at(bound.rank.index()).bytes;
      };
      EXPECT_EQ(need(bound.reached_at), bound.bytes.at(bound.reached_at / bound.period)) << bound.rank;
      for (int m = 1; m <= 2 * kUpTo; ++m) {
        if (programs(m)) {
          EXPECT_LE(need(m), bound.bytes.at(m / bound.period)) << bound.rank << ", m = " << m;
        }
      }
    }
  }

  /// Z3 follows all states of all members; without queries shorter members stand for longer ones where they
  /// do.
  static void needs_the_same_by_z3(AllMicrobatchesOptions options) {
    const AllMicrobatchesReport report = ask(2, options);
    options.queries = [](const SolverQuery&) {};
    const AllMicrobatchesReport by_z3 = ask(2, options);
    ASSERT_TRUE(report.proved(Property::memory));
    ASSERT_TRUE(by_z3.proved(Property::memory));
    ASSERT_EQ(report.memory.size(), by_z3.memory.size());
    for (std::size_t r = 0; r < report.memory.size(); ++r)
      EXPECT_EQ(report.memory[r].bytes, by_z3.memory[r].bytes) << r;
  }
};

TEST_P(AllMicrobatchesMemoryOf, IsOnEachRankWhatTheWorstNumberNeeds) {
  needs_what_the_worst_number_needs(memory_options(false));
}
TEST_P(AllMicrobatchesMemoryOf, IsWhatTheWorstNumberNeedsWithEagerSends) {
  needs_what_the_worst_number_needs(memory_options(true));
}
TEST_P(AllMicrobatchesMemoryOf, IsTheSameByZ3) { needs_the_same_by_z3(memory_options(false)); }
TEST_P(AllMicrobatchesMemoryOf, IsTheSameByZ3WithEagerSends) { needs_the_same_by_z3(memory_options(true)); }

TEST_P(AllMicrobatchesOf, HangsUnderAResidencyLimitFromTheNumberThatIsFoundFirst) {
  AllMicrobatchesOptions options;
  options.properties = {Property::deadlock_free};
  const ProgramFor programs = programs_of(std::string(GetParam().name), {.ranks = 2});
  const SolverBudget budget(1'000'000);
  for (const int residency : {1, 2}) {
    options.capabilities.residency = residency;
    const AllMicrobatchesReport report = ask(2, options);
    const AllMicrobatchesResult& result = report.results.front();
    if (std::holds_alternative<Unknown>(result.verdict)) continue;
    const bool refuted = std::holds_alternative<Refuted>(result.verdict);
    for (int m = 1; m <= (refuted ? result.microbatches : 4); ++m) {
      const auto program = programs(m);
      if (!program) continue;
      const auto hangs = can_deadlock(*program, options.capabilities, 20'000);
      if (hangs) {
        EXPECT_EQ(*hangs, refuted && m == result.microbatches) << "K = " << residency << ", m = " << m;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, AllMicrobatchesOf,
                         testing::ValuesIn(registered_schedules().begin(), registered_schedules().end()),
                         schedule_test_name);
INSTANTIATE_TEST_SUITE_P(Registry, AllMicrobatchesMemoryOf,
                         testing::ValuesIn(registered_schedules().begin(), registered_schedules().end()),
                         schedule_test_name);

}  // namespace
}  // namespace ppsim::test
