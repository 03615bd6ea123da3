#include <gtest/gtest.h>

#include "ppsim/verifier/parameterized/all_microbatches.hpp"
#include "ppsim/verifier/parameterized/all_ranks.hpp"
#include "ppsim/verifier/solver/z3_check.hpp"
#include "ppsim/verifier/synthesis/synthesis.hpp"
#include "support/generated.hpp"
#include "support/programs.hpp"

namespace ppsim::test {
namespace {

constexpr const char* kTime = "time limit reached";
constexpr const char* kMemory = "memory budget reached";

/// Interleaved on communicators of their own, so that a rank has many queues.
Program many_queues() {
  LoweringOptions options;
  options.communicators = CommunicatorPolicy::per_stage_edge;
  return programs_of("interleaved-1f1b", {.ranks = 2, .chunks = 16}, options)(16).value();
}

/// The reason of an unknown; empty: it is none.
std::string reason(const Verdict& verdict) {
  const auto* unknown = std::get_if<Unknown>(&verdict);
  return unknown == nullptr ? "" : unknown->reason;
}

TEST(Limits, NothingIsProvedWithoutTimeOrMemory) {
  for (const auto& [options, why] : {std::pair(VerifyOptions{.timeout_s = 0}, kTime),
                                     std::pair(VerifyOptions{.memory_budget = 100}, kMemory)}) {
    const VerifyReport report = verify(two_rank_step(), options);
    EXPECT_FALSE(report.results.empty());
    for (const PropertyResult& result : report.results) EXPECT_EQ(reason(result.verdict), why);
  }
}

TEST(Limits, MemoryOfTheFlowIsCountedBeforeItIsTaken) {
  const Program program = many_queues();
  VerifyOptions options;
  options.sizes = activation_size_table(1);
  options.memory_budget = static_cast<Bytes>(120 * program.size());
  const VerifyReport report = verify(program, options);
  EXPECT_TRUE(report.proved(Property::deadlock_free));
  EXPECT_EQ(reason(report.find(Property::memory)->verdict), kMemory);
  options.memory_budget = 1'000'000'000;
  EXPECT_TRUE(verify(program, options).proved(Property::memory));
}

TEST(Limits, RanksAtATimeNeedWhatTheyNeedOneAfterAnother) {
  const Program program = programs_of("interleaved-1f1b", {.ranks = 16, .chunks = 2})(64).value();
  VerifyOptions options{.properties = {Property::deadlock_free, Property::memory}};
  options.sizes = activation_size_table(1);
  const VerifyReport together = verify(program, options);
  options.memory_budget = 1'000'000'000;
  const VerifyReport apart = verify(program, options);
  ASSERT_EQ(together.memory.size(), 16u);
  ASSERT_EQ(apart.memory.size(), 16u);
  for (std::size_t r = 0; r < 16; ++r) {
    EXPECT_EQ(together.memory[r].rank, RankId(static_cast<std::int32_t>(r)));
    EXPECT_EQ(apart.memory[r].rank, together.memory[r].rank);
    EXPECT_EQ(together.memory[r].bytes, apart.memory[r].bytes);
    EXPECT_EQ(together.memory[r].reached, apart.memory[r].reached);
  }
}

TEST(Limits, TimeThatEndsWhileRanksAreLookedAtIsAReason) {
  const Program program = programs_of("interleaved-1f1b", {.ranks = 8, .chunks = 4})(128).value();
  VerifyOptions options{.properties = {Property::deadlock_free, Property::memory}};
  options.sizes = activation_size_table(1);
  for (options.timeout_s = 0.001; options.timeout_s < 1; options.timeout_s *= 3) {
    const VerifyReport report = verify(program, options);
    const Verdict& verdict = report.find(Property::memory)->verdict;
    EXPECT_TRUE(std::holds_alternative<Proved>(verdict) || reason(verdict) == kTime) << reason(verdict);
  }
}

TEST(Limits, StatesOfAnExplorationAreCounted) {
  const Program program = programs_of("1f1b", {.ranks = 6})(6).value();
  VerifyOptions options{.properties = {Property::deadlock_free}};
  options.capabilities.residency = 3;
  options.memory_budget = static_cast<Bytes>(101 * program.size());
  EXPECT_EQ(reason(verify(program, options).results.front().verdict), kMemory);
}

TEST(Limits, AnInterruptedSolverIsUnknown) {
  const SolverAnswer answer = deadlock_by_z3({two_rank_step(), {}}, {.memory_budget = 1});
  EXPECT_EQ(answer.outcome, SolverAnswer::Outcome::unknown);
  EXPECT_EQ(answer.reason, kMemory);
  SynthesisRequest request{.ranks = 3, .microbatches = 8, .activation_limit = 2};
  request.costs = unit_cost_table({});
  request.memory_budget = 1;
  const auto found = synthesize(request).value();
  EXPECT_FALSE(std::get<Synthesized>(found).optimal());
  EXPECT_EQ(std::get<Synthesized>(found).open, kMemory);
}

TEST(Limits, HoldForEveryNumberOfMicrobatchesAndOfRanks) {
  AllMicrobatchesOptions options{.properties = {Property::deadlock_free}};
  options.capabilities.residency = 3;
  options.memory_budget = 1;
  const auto report = verify_all_microbatches(programs_of("1f1b", {.ranks = 3}), options).value();
  EXPECT_NE(reason(report.results.front().verdict).find(kMemory), std::string::npos);
  const ProgramForRanks programs = [](int ranks, int microbatches) {
    return programs_of("1f1b", {.ranks = ranks})(microbatches);
  };
  const RepetitionsForRanks known = [](int ranks) { return repetitions_of("1f1b", {.ranks = ranks}); };
  EXPECT_NE(reason(verify_all_ranks(programs, {.memory_budget = 1}, {}, known).value().verdict).find(kMemory),
            std::string::npos);
}

}  // namespace
}  // namespace ppsim::test
