#include <gtest/gtest.h>

#include "ppsim/core/io/text.hpp"
#include "support/closed_forms.hpp"

namespace ppsim {
namespace {

using test::generated;

using Settings = std::map<std::string, std::string>;

const Settings kVHalf = {
    {"placement", "v"},
    {"offsets", "F0: 2i; F1: 3p-i-2; I1: 3p + 3(1-p%2) + 2i - 1; I0: 6p + 3(1-p%2) - i - 2"},
    {"reorder", "peak"}};

Schedule block(int ranks, int microbatches, const Settings& settings, int chunks = 1) {
  return generated("building-block",
                   {.ranks = ranks, .microbatches = microbatches, .chunks = chunks, .settings = settings});
}

TEST(BuildingBlock, IsOneFOneBWithoutSettings) {
  for (int p = 1; p <= 6; ++p) {
    for (int m = 1; m <= 9; ++m) {
      EXPECT_EQ(block(p, m, {}), generated("1f1b", {.ranks = p, .microbatches = m})) << p << ' ' << m;
    }
  }
}

TEST(BuildingBlock, WritesVHalf) {
  for (int p = 1; p <= 6; ++p) {
    for (const int m : {1, p, 2 * p, 3 * p + 1}) {
      EXPECT_EQ(block(p, m, kVHalf, 2), generated("v-half", {.ranks = p, .microbatches = m}))
          << p << ' ' << m;
    }
  }
}

// 2401.10241, table 1: ZB-H1 idles (p - 1)(F + I - W) within the activations of 1F1B. The block comes to that
// for up to four ranks, and to less than half of what 1F1B idles beyond.
TEST(BuildingBlock, ReachesZbH1) {
  const Settings settings = {{"offsets", "F: i; I: 3p - 2 - 2i"}, {"reorder", "peak"}};
  for (int p = 1; p <= 8; ++p) {
    const Schedule schedule = block(p, 3 * p, settings);
    const Nanoseconds idle = test::step_time(schedule, unit_cost_table({})).makespan / kUnitTime - 9 * p;
    if (p <= 4) {
      EXPECT_EQ(idle, p - 1);
    } else {
      EXPECT_LT(2 * idle, 3 * (p - 1));
    }
    EXPECT_EQ(test::peak_live_activations(schedule, RankId(0)), p);
  }
}

// Without moves the slots of the block are the schedule, idle time aside.
TEST(BuildingBlock, KeepsItsOrderUnlessAsked) {
  const Schedule schedule = block(2, 2, {{"offsets", "F: [0 1]; I: [4 2]; W: [5 3]"}, {"reorder", "none"}});
  std::string row;
  for (const Cell& cell : schedule.row(RankId(0))) row += cell_text(schedule.pipeline(), cell) + ' ';
  EXPECT_EQ(row, "0F0 0F1 0I0 0W0 0I1 0W1 ");
}

TEST(BuildingBlock, FormulasAreThoseOfLists) {
  const Schedule formula = block(3, 5, {{"offsets", "F: i; B: 3p - 2 - 2i"}});
  EXPECT_EQ(block(3, 5, {{"offsets", "B0:[7 5 3] ; F0:[0 1 2];"}}), formula);
  EXPECT_EQ(block(3, 5, {{"offsets", "F: (i + 1) * 4 / 4 - 1 ; B: -(2 - 3p) - 2 * i"}}), formula);
  EXPECT_EQ(block(3, 5, {{"offsets", "F: i - 3; B: 3p - 5 - 2i"}}), formula) << "slots may start anywhere";
  EXPECT_EQ(block(3, 5, {{"offsets", "F: i; B: 3p - 2 - 2i"}, {"interval", "2v + p - 2"}}), formula);
}

std::string block_refusal(int ranks, const Settings& settings, int chunks = 1) {
  const auto schedule =
      generate("building-block", {.ranks = ranks, .microbatches = 4, .chunks = chunks, .settings = settings});
  return schedule ? "accepted" : schedule.error().message;
}

std::string refused_offsets(const std::string& offsets) { return block_refusal(2, {{"offsets", offsets}}); }

TEST(BuildingBlock, SaysWhatItsTextLacksAndWhere) {
  const std::string start = "building-block: offsets: ";
  EXPECT_EQ(refused_offsets("F: i; I: 3q"), start + "column 11: expected ; or the end, found \"q\"");
  EXPECT_EQ(refused_offsets("F: i; I:"), start + "column 9: expected a number, i, p, v or (, found the end");
  EXPECT_EQ(refused_offsets("G: i"), start + "column 1: expected F, B, I or W, found \"G\"");
  EXPECT_EQ(refused_offsets("F i"), start + "column 3: expected :, found \"i\"");
  EXPECT_EQ(refused_offsets("F: ((i)"), start + "column 4: ( without )");
  EXPECT_EQ(refused_offsets("F: i / (p-2)"), start + "column 8: division by zero");
  EXPECT_EQ(refused_offsets("F: 9999999999999"), start + "column 11: the number is larger than 1048576");
  EXPECT_EQ(refused_offsets("F: i; F0: i"), start + "column 7: F0 is given twice");
  EXPECT_EQ(refused_offsets("F1: i"), start + "column 2: chunks are numbered from 0 to 0");
  EXPECT_EQ(refused_offsets("F: [0]; I: 3"),
            start + "column 4: expected a slot for each of 2 ranks, found 1");
  EXPECT_EQ(refused_offsets("F: [0 i]"), start + "column 7: expected a number or ], found \"i\"");
  EXPECT_EQ(refused_offsets("F: [-1 --1]"), start + "column 9: expected a digit, found \"-\"");
  EXPECT_EQ(refused_offsets("F: [0"), start + "column 6: expected a number or ], found the end");
  EXPECT_EQ(refused_offsets("F: i"), start + "I0 is missing");
  EXPECT_EQ(refused_offsets("F: i; B: 4-2i; W: 6"), start + "expected either B or I and W, found both");
}

TEST(BuildingBlock, SaysWhichRuleABlockBreaks) {
  EXPECT_EQ(refused_offsets("F: i; I: 5 - 2i; W: 7 - i"),
            "building-block: rank 1: I of stage 1 (slot 3) and W of stage 1 (slot 6) share slot 0 of the "
            "interval of 3");
  EXPECT_EQ(block_refusal(1, {{"offsets", "F: 0; I: 0"}}),
            "building-block: I of stage 0 starts in slot 0, before F of stage 0 ends in slot 1\n"
            "building-block: rank 0: F of stage 0 (slot 0) and I of stage 0 (slot 0) share slot 0 of the "
            "interval of 3");
  EXPECT_EQ(block_refusal(1, {{"offsets", "F: 0; I: 1"}, {"interval", "2"}}),
            "building-block: rank 0: 3 slots of work, more than the interval of 2");
  EXPECT_EQ(block_refusal(1, {{"interval", "4"}}), "building-block: an interval needs offsets");
  EXPECT_EQ(block_refusal(1, {{"offsets", "F: 0; B: 1"}, {"interval", "3 + i"}}),
            "building-block: interval: column 5: expected a number, p, v or (, found \"i\"");
  EXPECT_EQ(block_refusal(1, {{"offsets", "F: 0; B: 1"}, {"interval", "3i"}}),
            "building-block: interval: column 2: expected the end, found \"i\"");
  EXPECT_EQ(block_refusal(2, {{"placement", "chain"}}, 2),
            "building-block: placement chain has one chunk per rank, found 2");
}

}  // namespace
}  // namespace ppsim
