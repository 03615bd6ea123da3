#include <gtest/gtest.h>

#include <sstream>

#include "ppsim/core/lowering/lowering.hpp"
#include "support/closed_forms.hpp"
#include "support/row_text.hpp"

// The claims of papers on schedules of two directions and of waves, and where the orders differ from it.

namespace ppsim {
namespace {

using test::generated;
using test::row_text;

Nanoseconds makespan(std::string_view name, const ScheduleParameters& parameters, const StageCosts& costs) {
  return test::step_time(generated(name, parameters), test::cost_table(costs)).makespan;
}

std::string refusal(std::string_view name, const ScheduleParameters& parameters) {
  const auto schedule = generate(name, parameters);
  return schedule ? "" : schedule.error().message;
}

ScheduleParameters with(ScheduleParameters parameters, const char* concatenation) {
  parameters.settings["concatenation"] = concatenation;
  return parameters;
}

/// a/b == c/d.
void expect_ratio(Nanoseconds a, Nanoseconds b, Nanoseconds c, Nanoseconds d) { EXPECT_EQ(a * d, c * b); }

// The README of deepseek-ai/DualPipe draws 8 ranks and 20 microbatches.
TEST(DualPipe, ExampleOfItsAuthors) {
  const ScheduleParameters parameters{.ranks = 8, .microbatches = 20};
  EXPECT_EQ(makespan("dualpipe", parameters, {}), 66);
  EXPECT_EQ(closed_form_bubble(**find_schedule("dualpipe"), parameters, {}), 6);
  for (int r = 0; r < 8; ++r) {
    EXPECT_EQ(test::peak_live_activations(generated("dualpipe", parameters), RankId(r)), 9);
  }
}

// The README's bubble, (PP/2-1)(F&B + B - 3W), supposes that F, I and W take alike.
TEST(DualPipe, BubbleOfOtherCostsIsNotThePapers) {
  struct Case {
    Nanoseconds forward, backward, weight, pair;
    int ranks;
    Nanoseconds found, paper;
  };
  for (const Case& c : {Case{10, 22, 8, 32, 4, 26, 30}, Case{10, 22, 8, 32, 8, 80, 90},
                        Case{10, 20, 8, 30, 4, 24, 26}, Case{10, 20, 8, 30, 8, 72, 78}}) {
    const StageCosts costs{.forward = c.forward,
                           .backward = c.backward,
                           .backward_input = c.backward - c.weight,
                           .backward_weight = c.weight,
                           .overlap = c.pair};
    EXPECT_EQ((c.ranks / 2 - 1) * (c.pair + c.backward - 3 * c.weight), c.paper);
    for (const int m : {2 * c.ranks, 20, 4 * c.ranks}) {
      const ScheduleParameters parameters{.ranks = c.ranks, .microbatches = m};
      EXPECT_EQ(makespan("dualpipe", parameters, costs) - m * (c.forward + c.backward), c.found);
      EXPECT_EQ((*find_schedule("dualpipe"))->forms.makespan(parameters, costs), std::nullopt);
    }
  }
}

TEST(DualPipe, RefusesWhatItsAuthorsRefuse) {
  EXPECT_EQ(refusal("dualpipe", {.ranks = 3, .microbatches = 7}),
            "dualpipe: ranks must be even, found 3\ndualpipe: microbatches must be even, found 7");
  EXPECT_EQ(refusal("dualpipe", {.ranks = 4, .microbatches = 6}),
            "dualpipe: microbatches must be at least 8, found 6");
  EXPECT_EQ(refusal("dualpipe-v", {.ranks = 4, .microbatches = 7}),
            "dualpipe-v: microbatches must be at least 8, found 7");
}

// Two ranks, two stages each: the rank where the ways meet runs its first pair as F and B.
TEST(DualPipe, RowsOfTwoRanks) {
  const Schedule schedule = generated("dualpipe-v", {.ranks = 2, .microbatches = 4});
  EXPECT_EQ(row_text(schedule, 0),
            "0F0 0F1 0F2 3F0 3I0 3W0 3F1 (0F3;3B1)OVERLAP_F_B (3F2;0B0)OVERLAP_F_B 3B2 (3F3;0B1)OVERLAP_F_B "
            "3B3 0I2 0W2 0I3 0W3");
  EXPECT_EQ(row_text(schedule, 1),
            "1F0 2F0 1F1 2F1 1F2 2B0 (2F2;1B0)OVERLAP_F_B (1F3;2B1)OVERLAP_F_B (2F3;1B1)OVERLAP_F_B 2B2 1B2 "
            "2I3 1I3 2W3 1W3");
}

// As JaxPP: B on the first stage, and the last rank splits one of its stages alone.
TEST(DualPipe, RowsOfTwoRanksAsJaxpp) {
  const Schedule schedule =
      generated("dualpipe-v", {.ranks = 2, .microbatches = 4, .settings = {{"variant", "jaxpp"}}});
  EXPECT_EQ(row_text(schedule, 0),
            "0F0 0F1 0F2 3F0 3I0 3W0 3F1 (0F3;3B1)OVERLAP_F_B (3F2;0B0)OVERLAP_F_B 3B2 (3F3;0B1)OVERLAP_F_B "
            "3B3 0B2 0B3");
  EXPECT_EQ(row_text(schedule, 1),
            "1F0 2F0 1F1 2F1 1F2 2B0 (2F2;1B0)OVERLAP_F_B (1F3;2B1)OVERLAP_F_B (2F3;1B1)OVERLAP_F_B 2B2 1B2 "
            "2I3 1B3 2W3");
  EXPECT_EQ(refusal("dualpipe-v", {.ranks = 2, .microbatches = 4, .settings = {{"variant", "no"}}}),
            "dualpipe-v: variant must be one of deepseek, jaxpp, found \"no\"");
}

// Chimera, figure 3: four ranks, four microbatches; 2 and 3 go up.
TEST(Chimera, BasicUnit) {
  const Schedule schedule = generated("chimera", {.ranks = 4, .microbatches = 4});
  EXPECT_EQ(row_text(schedule, 0), "0F0 0F1 7F2 7B2 7F3 7B3 0B0 0B1");
  EXPECT_EQ(row_text(schedule, 1), "1F0 6F2 1F1 6F3 6B2 1B0 6B3 1B1");
}

TEST(Chimera, CopiesShareTheirParametersOnMirroredRanks) {
  const Schedule schedule = generated("chimera", {.ranks = 4, .microbatches = 4});
  const Pipeline& pipeline = schedule.pipeline();
  ASSERT_EQ(pipeline.blocks(), 4);
  for (int s = 0; s < 4; ++s) {
    EXPECT_EQ(pipeline.spec().blocks[BlockId(s)].stages, (std::vector{StageId(s), StageId(4 + s)}));
    EXPECT_EQ(pipeline.rank_of(StageId(s)), RankId(s));
    EXPECT_EQ(pipeline.rank_of(StageId(4 + s)), RankId(3 - s));
  }
}

/// The REDUCE_GRADs of a rank.
std::string reductions(const Program& program, int rank) {
  std::istringstream row(test::row_text(program, rank));
  std::string found;
  for (std::string cell; row >> cell;) {
    if (cell.find("REDUCE_GRAD") != std::string::npos) found += cell + " ";
  }
  return found;
}

// The gradients of both copies are one sum: each rank reduces both blocks that it holds a copy of.
TEST(Chimera, ReducesEachBlockOnBothOfItsRanks) {
  const Schedule schedule = generated("chimera", {.ranks = 4, .microbatches = 4});
  const Program program = lower(schedule, {.reduce_grad = true, .optimizer = true}).value();
  EXPECT_EQ(reductions(program, 0), "3REDUCE_GRAD 0REDUCE_GRAD ");
  EXPECT_EQ(reductions(program, 1), "2REDUCE_GRAD 1REDUCE_GRAD ");
  EXPECT_EQ(reductions(program, 2), "2REDUCE_GRAD 1REDUCE_GRAD ");
  EXPECT_EQ(reductions(program, 3), "3REDUCE_GRAD 0REDUCE_GRAD ");
}

// Table 2: between D/2 + 1 and D activations, the most on the middle ranks.
TEST(Chimera, ActivationsOfTable2) {
  for (const int microbatches : {8, 16, 40}) {
    const Schedule schedule = generated("chimera", {.ranks = 8, .microbatches = microbatches});
    std::vector<int> peaks;
    for (int r = 0; r < 8; ++r) peaks.push_back(test::peak_live_activations(schedule, RankId(r)));
    EXPECT_EQ(peaks, (std::vector{5, 6, 7, 8, 8, 7, 6, 5}));
  }
}

// Table 2 with F = B: (D-2)/(2N + D-2), for any number of units.
TEST(Chimera, RatioOfTable2AtEqualCosts) {
  for (const int d : {4, 6, 8}) {
    for (const int n : {d, 2 * d, 4 * d}) {
      const Nanoseconds time = makespan("chimera", {.ranks = d, .microbatches = n}, {.backward = 1});
      expect_ratio(time - 2 * n, time, d - 2, 2 * n + d - 2);
    }
  }
}

// Table 2 with B = 2F, (D-2)/(3N/2 + D-2), is the ratio of one unit; more of them wait where F stand beside
// B.
TEST(Chimera, RatioOfTable2AtTwiceTheBackwardIsThatOfOneUnit) {
  const Nanoseconds one = makespan("chimera", {.ranks = 8, .microbatches = 8}, {});
  expect_ratio(one - 24, one, 2 * 6, 3 * 8 + 2 * 6);
  const Nanoseconds two = makespan("chimera", {.ranks = 8, .microbatches = 16}, {});
  EXPECT_EQ(two, 66);
  EXPECT_EQ(two - 48, 18);  // .2727 of the time; the table has .2000
}

// The authors' generator has 20 of the 32 microbatches here.
TEST(Chimera, KeepsEveryMicrobatch) {
  const Schedule schedule = generated("chimera", {.ranks = 8, .microbatches = 32});
  EXPECT_EQ(schedule.action_count(), 2U * 8 * 32);
}

// Section 3.5: doubled F make F and B alike, and the paper waits (D-2)B. Here it is less, as a rank passes on
// the first F of a pair before it runs the second.
TEST(Chimera, ForwardDoublingWaitsLessThanThePaper) {
  for (const int n : {16, 32, 64}) {
    const ScheduleParameters parameters = with({.ranks = 8, .microbatches = n}, "forward-doubling");
    EXPECT_EQ(makespan("chimera", parameters, {}) - 3 * n, (8 / 2 - 1) * 3);
  }
}

TEST(Chimera, DoubledForwardsFollowEachOther) {
  const Schedule schedule = generated("chimera", with({.ranks = 4, .microbatches = 8}, "forward-doubling"));
  EXPECT_EQ(row_text(schedule, 0), "0F0 0F1 0F2 0F3 7F4 7F5 7B4 7F6 7F7 7B5 0B0 7B6 0B1 7B7 0B2 0B3");
  EXPECT_EQ(test::peak_live_activations(schedule, RankId(0)), 7);
  EXPECT_EQ(test::peak_live_activations(generated("chimera", {.ranks = 4, .microbatches = 8}), RankId(0)), 3);
}

// Section 3.5: backward halving keeps the order of forward doubling; its pairs are halves of microbatches.
TEST(Chimera, BackwardHalvingIsForwardDoublingOfHalves) {
  const ScheduleParameters parameters{.ranks = 6, .microbatches = 30};
  const Schedule doubling = generated("chimera", with(parameters, "forward-doubling"));
  EXPECT_EQ(doubling, generated("chimera", with(parameters, "backward-halving")));
  EXPECT_FALSE(doubling == generated("chimera", parameters));
}

TEST(Chimera, Refusals) {
  EXPECT_EQ(refusal("chimera", {.ranks = 5, .microbatches = 3}),
            "chimera: ranks must be even, found 5\nchimera: microbatches must be even, found 3");
  EXPECT_EQ(
      refusal("chimera", with({.ranks = 4, .microbatches = 4}, "both")),
      "chimera: concatenation must be one of direct, forward-doubling, backward-halving, found \"both\"");
  EXPECT_EQ(refusal("hanayo", {.ranks = 4, .microbatches = 4, .chunks = 3}),
            "hanayo: chunks must be even, found 3");
  EXPECT_EQ(refusal("bitpipe", {.ranks = 4, .microbatches = 5}),
            "bitpipe: microbatches must be even, found 5");
}

// The paper's ratio at T_B = 2 T_F, m = P, without transfers: (2P-2)/(3PW + P-1). Its numerator is the
// bubble, 4(P-1) F, its denominator 2(P-1) F less than computation and bubble together.
TEST(Hanayo, RatioOfOneUnit) {
  for (const int p : {2, 3, 4, 8}) {
    for (const int waves : {1, 2, 3}) {
      const ScheduleParameters parameters{.ranks = p, .microbatches = p, .chunks = 2 * waves};
      const Nanoseconds time = makespan("hanayo", parameters, {});
      const Nanoseconds bubble = time - 6 * p * waves;
      EXPECT_EQ(bubble, 4 * (p - 1));
      expect_ratio(bubble, time, 2 * p - 2, 3 * p * waves + 2 * p - 2);
      expect_ratio(bubble, time - 2 * (p - 1), 2 * p - 2, 3 * p * waves + p - 1);
    }
  }
}

TEST(Hanayo, AMicrobatchStaysWhereTheWaveTurns) {
  const Schedule schedule = generated("hanayo", {.ranks = 2, .microbatches = 2, .chunks = 4});
  EXPECT_EQ(row_text(schedule, 0), "0F0 0F1 3F0 4F0 3F1 4F1 7F0 7B0 7F1 7B1 4B0 3B0 4B1 3B1 0B0 0B1");
  EXPECT_EQ(row_text(schedule, 1), "1F0 2F0 1F1 2F1 5F0 6F0 5F1 6F1 6B0 5B0 6B1 5B1 2B0 1B0 2B1 1B1");
}

// BitPipe-v.svg of the authors' repository: four ranks, four microbatches, 28 units at B = 2F.
TEST(BitPipe, UnitOfTheAuthorsDrawing) {
  const Schedule schedule = generated("bitpipe", {.ranks = 4, .microbatches = 4});
  EXPECT_EQ(row_text(schedule, 0), "0F0 0F1 11F2 12F2 11F3 12F3 7F0 7B0 7F1 7B1 12B2 11B2 12B3 11B3 0B0 0B1");
  EXPECT_EQ(row_text(schedule, 1), "1F0 10F2 1F1 10F3 13F2 6F0 13F3 6F1 6B0 13B2 6B1 13B3 10B2 1B0 10B3 1B1");
  EXPECT_EQ(makespan("bitpipe", {.ranks = 4, .microbatches = 4}, {}), 28);
}

// Chimera's ratio at B = 2F, (D-2)/(3N/2 + D-2), with stages half as large.
TEST(BitPipe, RatioOfOneUnit) {
  for (const int p : {2, 4, 6, 8}) {
    const Nanoseconds time = makespan("bitpipe", {.ranks = p, .microbatches = p}, {});
    expect_ratio(time - 6 * p, time, p - 2, 3 * p + p - 2);
  }
}

TEST(BitPipe, HoldsAVOfEachDirection) {
  const Schedule schedule = generated("bitpipe", {.ranks = 4, .microbatches = 4});
  const auto stages = schedule.pipeline().stages_of(RankId(1));
  EXPECT_EQ(std::vector<StageId>(stages.begin(), stages.end()),
            (std::vector{StageId(1), StageId(6), StageId(10), StageId(13)}));
}

}  // namespace
}  // namespace ppsim
