// weight_versions: one version in a synchronous step, p - r on rank r of PipeDream, two in 2BW; and what is
// wrong with a Program that breaks it.

#include <gtest/gtest.h>

#include <sstream>

#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/schedules/registry.hpp"
#include "ppsim/verifier/verify.hpp"
#include "support/hand_program.hpp"

namespace ppsim::test {
namespace {

PropertyResult judged(const Program& program) {
  VerifyOptions options;
  options.properties = {Property::weight_versions};
  return verify(program, options).results.front();
}

/// The messages of a refutation, one per line.
std::string refutation(const Program& program) {
  const PropertyResult result = judged(program);
  std::ostringstream text;
  if (const auto* refuted = std::get_if<Refuted>(&result.verdict)) {
    for (const Violation& v : std::get<std::vector<Violation>>(refuted->counterexample)) {
      text << v.message << '\n';
    }
  }
  return text.str();
}

Program lowered(std::string_view name, ScheduleParameters parameters, const LoweringOptions& options = {}) {
  return lower(generate(name, parameters).value(), options).value();
}

/// A stage that is one update behind: three microbatches, an update for each.
HandProgram one_behind(std::vector<std::string> row) {
  HandProgram hand{.pipeline = chain_spec(1, 1, 3), .rows = {std::move(row)}};
  hand.pipeline.update = {0, 1, 2};
  hand.pipeline.version = {0, 1, 2};
  hand.pipeline.lag = {1};
  return hand;
}

TEST(WeightVersions, ASynchronousStepHasOne) {
  const Program program = lowered("1f1b", {.ranks = 3, .microbatches = 5}, {.optimizer = true});
  EXPECT_EQ(refutation(program), "");
  EXPECT_TRUE(judged(program).notes.empty());
}

// 1806.03377, section 3.3: as many versions as microbatches are in flight.
TEST(WeightVersions, PipeDreamStashesAsManyAsMicrobatchesAreInFlight) {
  const PropertyResult result = judged(lowered("pipedream", {.ranks = 4, .microbatches = 12}));
  EXPECT_EQ(verdict_name(result.verdict), "proved");
  EXPECT_EQ(result.notes, std::vector<std::string>{"versions held per rank: 4 3 2 1"});
}

// 2006.09503, section 3.1: double buffering.
TEST(WeightVersions, TwoBuffersAreTwo) {
  const PropertyResult result = judged(lowered("pipedream-2bw", {.ranks = 4, .microbatches = 13}));
  EXPECT_EQ(verdict_name(result.verdict), "proved");
  EXPECT_EQ(result.notes, std::vector<std::string>{"versions held per rank: 2 2 2 2"});
}

TEST(WeightVersions, AMissingUpdateLeavesReadersWithoutVersion) {
  EXPECT_EQ(refutation(one_behind({"0F0", "0F1", "0B0", "0OPT0", "0F2", "0B1", "0OPT1", "0B2"}).build()), "");
  EXPECT_EQ(refutation(one_behind({"0F0", "0F1", "0B0", "0F2", "0B1", "0OPT1", "0B2"}).build()),
            "rank 0: 0F2 reads version 1 of block 0, of which the newest is 0\n"
            "rank 0: 0OPT1 makes version 2 of block 0, of which the newest is 0\n");
}

TEST(WeightVersions, AForwardBeforeItsUpdateReadsAnOldVersion) {
  EXPECT_EQ(refutation(one_behind({"0F0", "0F1", "0B0", "0F2", "0OPT0", "0B1", "0OPT1", "0B2"}).build()),
            "rank 0: 0F2 reads version 1 of block 0, of which the newest is 0\n");
}

TEST(WeightVersions, AGradientAfterItsUpdateIsLost) {
  EXPECT_EQ(refutation(one_behind({"0F0", "0F1", "0OPT0", "0B0", "0F2", "0B1", "0OPT1", "0B2"}).build()),
            "rank 0: 0B0 adds to the gradients of block 0 after 0OPT0\n");
}

TEST(WeightVersions, NoRankKeepsMoreThanItsMicrobatchesAreBehind) {
  // Synchronous: the update overwrites what a later backward still reads.
  EXPECT_EQ(refutation(
                {HandProgram{.pipeline = chain_spec(1, 1, 2), .rows = {{"0F0", "0F1", "0B0", "0OPT0", "0B1"}}}
                     .build()}),
            "rank 0: 0OPT0 leaves 2 versions of block 0, expected at most 1; 0B1 reads version 0\n"
            "rank 0: 0B1 adds to the gradients of block 0 after 0OPT0\n");
  // Microbatch 1 is held up behind three updates, while two versions would do for what each is behind.
  HandProgram late = one_behind({"0F0", "0F1", "0B0", "0OPT0", "0F2", "0OPT1", "0OPT2", "0B1", "0B2"});
  EXPECT_NE(refutation(late.build()).find("0OPT1 leaves 3 versions of block 0, expected at most 2"),
            std::string::npos);
}

TEST(WeightVersions, CopiesOfABlockAreUpdatedFromOneSum) {
  HandProgram hand{.pipeline = chain_spec(2, 2, 1),
                   .communicators = communicators({{0, 1}, {0, 1}, {0, 1}}),
                   .rows = {{"0F0", "0SEND_F0@0", "0RECV_B0@1", "0B0", "0REDUCE_GRAD0@2", "0OPT0"},
                            {"1RECV_F0@0", "1F0", "1B0", "1SEND_B0@1", "0REDUCE_GRAD0@2", "0OPT0"}}};
  hand.pipeline.blocks = {ParameterBlock{{StageId(0), StageId(1)}}};
  EXPECT_EQ(refutation(hand.build()), "");
  hand.rows[1] = {"1RECV_F0@0", "1F0", "1B0", "1SEND_B0@1", "0OPT0"};
  EXPECT_EQ(refutation(hand.build()), "rank 1: 0OPT0 updates its copy of block 0 without 0REDUCE_GRAD\n");
}

}  // namespace
}  // namespace ppsim::test
