#include "ppsim/verifier/verify.hpp"

#include <gtest/gtest.h>

#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/schedules/registry.hpp"
#include "ppsim/verifier/solver/z3_check.hpp"
#include "support/hand_program.hpp"
#include "support/programs.hpp"

namespace ppsim::test {
namespace {

std::vector<std::string> violations_of(const Program& program, Property property) {
  VerifyOptions options;
  options.properties = {property};
  const VerifyReport report = verify(program, options);
  const auto* refuted = std::get_if<Refuted>(&report.results.at(0).verdict);
  if (refuted == nullptr) return {};
  return explain(program, refuted->counterexample);
}

using Lines = std::vector<std::string>;

TEST(Properties, HaveNamesBothWays) {
  for (const PropertyInfo& info : property_registry()) {
    EXPECT_EQ(property_name(info.property), info.name);
    EXPECT_EQ(property_from_name(info.name), info.property);
  }
  EXPECT_FALSE(property_from_name("deadlock").has_value());
}

TEST(Verify, AsksByDefaultForMemoryOnlyWithSizes) {
  VerifyOptions options;
  EXPECT_EQ(verify(two_rank_step(), options).results.size(), 6u);
  options.sizes = activation_size_table(1);
  const VerifyReport report = verify(two_rank_step(), options);
  EXPECT_EQ(report.results.size(), 7u);
  EXPECT_TRUE(report.all_proved());
  EXPECT_EQ(report.find(Property::ascending_accumulation), nullptr);
}

TEST(Verify, ReportsInTheOrderOfTheRegistry) {
  VerifyOptions options;
  options.properties = {Property::deadlock_free, Property::well_formed};
  const VerifyReport report = verify(two_rank_step(), options);
  ASSERT_EQ(report.results.size(), 2u);
  EXPECT_EQ(report.results[0].property, Property::well_formed);
  EXPECT_EQ(report.results[0].method, "static");
  EXPECT_EQ(report.results[1].method, "graph");
}

/// A search through all states comes last, so that everything else is told before it.
TEST(Verify, TellsEachPropertyWhenItIsDecided) {
  VerifyOptions options;
  std::vector<PropertyResult> told;
  options.decided = [&](const PropertyResult& result) { told.push_back(result); };
  for (const std::optional<int> residency : {std::optional<int>(), std::optional(2)}) {
    told.clear();
    options.capabilities.residency = residency;
    const VerifyReport report = verify(two_rank_step(), options);
    ASSERT_EQ(told.size(), report.results.size());
    for (const PropertyResult& result : told)
      EXPECT_EQ(result.verdict, report.find(result.property)->verdict) << property_name(result.property);
    EXPECT_EQ(told.back().property == Property::deadlock_free, residency.has_value());
  }
}

TEST(Verify, SaysWhatAnIllFormedProgramLacks) {
  HandProgram p{chain_spec(2, 2, 1), communicators({{0, 1}, {0, 1}})};
  p.rows = {{"0F0", "0SEND_F0@0", "0RECV_B0@1", "0B0"}, {"1RECV_F0@0", "1F0", "1SEND_B0@1"}};
  EXPECT_FALSE(violations_of(p.build(), Property::well_formed).empty());
  EXPECT_TRUE(violations_of(two_rank_step(), Property::well_formed).empty());
}

TEST(AscendingAccumulation, LooksAtEachStageAlone) {
  HandProgram p{chain_spec(1, 2, 2), {}};
  p.rows = {{"0F0", "1F0", "0F1", "1F1", "1B0", "1B1", "0B1", "0B0"}};
  EXPECT_EQ(violations_of(p.build(), Property::ascending_accumulation),
            Lines{"rank 0: 0B0 stands after 0B1"});
  p.rows = {{"0F0", "1F0", "0F1", "1F1", "1B0", "1I1", "0I1", "0B0", "0W1", "1W1"}};
  EXPECT_TRUE(violations_of(p.build(), Property::ascending_accumulation).empty()) << "I adds nothing up";
}

TEST(AscendingAccumulation, LooksAtEachUpdateAlone) {
  HandProgram p{chain_spec(1, 1, 2), {}};
  p.rows = {{"0F0", "0F1", "0B1", "0B0"}};
  EXPECT_EQ(violations_of(p.build(), Property::ascending_accumulation).size(), 1u);
  p.pipeline.update = {1, 0};
  EXPECT_TRUE(violations_of(p.build(), Property::ascending_accumulation).empty());
}

TEST(AscendingAccumulation, TakesTheSlicesOfAMicrobatchForOne) {
  PipelineSpec spec = chain_spec(1, 1, 2);
  spec.slices = 2;
  HandProgram p{spec, {}};
  p.rows = {{"0F0.0", "0F0.1", "0F1.0", "0F1.1", "0B0.1", "0B0.0", "0B1.1", "0B1.0"}};
  EXPECT_TRUE(violations_of(p.build(), Property::ascending_accumulation).empty());
}

/// Two collectives of two ranks on communicators of their own, in these orders.
Program two_collectives(Lines first, Lines second) {
  PipelineSpec spec = chain_spec(2, 2, 1);
  spec.collectives = {{"a", {RankId(0), RankId(1)}}, {"b", {RankId(0), RankId(1)}}};
  HandProgram p{spec, communicators({{0, 1}, {0, 1}, {0, 1}, {0, 1}})};
  p.rows = {{"0F0", "0SEND_F0@0", "0RECV_B0@1", "0B0"}, {"1RECV_F0@0", "1F0", "1B0", "1SEND_B0@1"}};
  p.rows[0].insert(p.rows[0].end(), first.begin(), first.end());
  p.rows[1].insert(p.rows[1].end(), second.begin(), second.end());
  return p.build();
}

TEST(CollectiveOrder, IsOneForAllCommunicators) {
  EXPECT_TRUE(violations_of(two_collectives({"0COLL@2", "1COLL@3"}, {"0COLL@2", "1COLL@3"}),
                            Property::collective_order)
                  .empty());
  const Program crossed = two_collectives({"0COLL@2", "1COLL@3"}, {"1COLL@3", "0COLL@2"});
  EXPECT_EQ(violations_of(crossed, Property::collective_order).size(), 2u);
  EXPECT_EQ(violations_of(two_collectives({"1COLL@3", "0COLL@2"}, {"0COLL@2", "1COLL@3"}),
                          Property::collective_order)
                .size(),
            2u);
  // On queues of their own the two do not block each other; the order alone is at fault.
  EXPECT_TRUE(violations_of(crossed, Property::deadlock_free).empty());
}

TEST(CollectiveOrder, SeesAbsentAndDifferentMembers) {
  EXPECT_EQ(violations_of(two_collectives({"0COLL@2"}, {}), Property::collective_order),
            Lines{"rank 0: 0COLL meets 0 of 1 other members of c2"});
  EXPECT_FALSE(violations_of(two_collectives({"0COLL@2"}, {"1COLL@2"}), Property::collective_order).empty());
}

TEST(Verify, ASearchThatTakesAllTheTimeHidesNoRefutation) {
  const Schedule schedule = generate("looped-bfs", {.ranks = 8, .microbatches = 32, .chunks = 2}).value();
  VerifyOptions options;
  options.properties = {Property::deadlock_free, Property::ascending_accumulation};
  options.capabilities.residency = 3;
  options.timeout_s = 2;
  const VerifyReport report = verify(lower(schedule, {}).value(), options);
  ASSERT_EQ(report.results.size(), 2U);
  EXPECT_EQ(report.results[0].property, Property::deadlock_free);
  EXPECT_EQ(verdict_name(report.results[0].verdict), "unknown");
  EXPECT_EQ(verdict_name(report.results[1].verdict), "refuted");
}

TEST(Verify, GivesUpWhenNoLongerAsked) {
  const Schedule schedule = generate("looped-bfs", {.ranks = 8, .microbatches = 32, .chunks = 2}).value();
  VerifyOptions options;
  options.properties = {Property::deadlock_free};
  options.capabilities.residency = 3;  // a search through very many states
  options.state_limit = std::size_t{1} << 40U;
  options.timeout_s = 3600;
  int looks = 0;
  options.stopped = [&] { return ++looks > 100; };
  const VerifyReport report = verify(lower(schedule, {}).value(), options);
  EXPECT_EQ(verdict_name(report.results.at(0).verdict), "unknown");
}

TEST(Z3, AgreesOnTheDeferredReceives) {
  EXPECT_EQ(deadlock_by_z3({deferred_receives(false), {}}).outcome, SolverAnswer::Outcome::deadlock);
  EXPECT_EQ(deadlock_by_z3({deferred_receives(true), {}}).outcome, SolverAnswer::Outcome::deadlock_free);
  EXPECT_EQ(deadlock_by_z3({deferred_receives(false), {.credits = 1}}).outcome,
            SolverAnswer::Outcome::deadlock_free);
}

TEST(Z3, SaysWhatItDoesNotAnswer) {
  EXPECT_EQ(deadlock_by_z3({two_rank_step(), {.residency = 1}}).reason,
            "a residency limit leaves choices that this question does not hold");
  EXPECT_EQ(deadlock_by_z3({two_rank_step(), {}}, {.timeout_s = 0}).reason, "time limit reached");
  const auto schedule = generate("1f1b", {.ranks = 16, .microbatches = 128});
  const SolverAnswer large = deadlock_by_z3({*lower(*schedule, LoweringOptions()), {}});
  EXPECT_EQ(large.outcome, SolverAnswer::Outcome::unknown);
  EXPECT_EQ(large.reason, "31232 events, more than 20000");
}

TEST(Certificate, IsRefusedWithoutAProof) {
  const VerifyOptions options;
  const auto refused = make_certificate({deferred_receives(false), options.capabilities}, options,
                                        verify(deferred_receives(false), options));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::refused);
  EXPECT_EQ(refused.error().message, "deadlock_free is not proved");
}

TEST(Certificate, IsRefusedWhereOnlyExplorationProves) {
  VerifyOptions options;
  options.capabilities.residency = 1;
  HandProgram p{chain_spec(2, 2, 1), communicators({{0, 1}, {0, 1}})};
  p.rows = {{"0F0", "0SEND_F0@0", "0RECV_B0@1 after 1", "0B0"}, {"1RECV_F0@0", "1F0", "1B0", "1SEND_B0@1"}};
  const Program program = p.build();
  const VerifyReport report = verify(program, options);
  ASSERT_TRUE(report.proved(Property::deadlock_free));
  EXPECT_FALSE(make_certificate({program, options.capabilities}, options, report).has_value());
}

TEST(Certificate, HoldsForAScheduleOfTheRegistry) {
  const auto schedule = generate("zb-h1", {.ranks = 4, .microbatches = 12});
  const Program program = *lower(*schedule, LoweringOptions());
  VerifyOptions options;
  options.sizes = activation_size_table(7);
  const auto certificate =
      make_certificate({program, options.capabilities}, options, verify(program, options));
  ASSERT_TRUE(certificate.has_value()) << to_string(certificate.error());
  EXPECT_TRUE(check_certificate(*certificate, program, &*options.sizes).has_value());
  Certificate forged = *certificate;
  --forged.memory[0].bytes;
  EXPECT_FALSE(check_certificate(forged, program, &*options.sizes).has_value())
      << "the bound is the best there is";
}

}  // namespace
}  // namespace ppsim::test
