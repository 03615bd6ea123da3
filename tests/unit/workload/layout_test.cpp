#include "ppsim/workload/layout.hpp"

#include <gtest/gtest.h>

namespace ppsim {
namespace {

/// The same layout as the library writes it.
std::string rewritten(std::string_view text) { return layout_text(parse_layout(text).value()); }

/// "column found expected" of a refusal.
void expect_refusal(std::string_view text, int column, const std::string& found,
                    const std::string& expected) {
  SCOPED_TRACE(text);
  const auto layout = parse_layout(text);
  ASSERT_FALSE(layout.has_value());
  EXPECT_EQ(layout.error().place.file, "layout");
  EXPECT_EQ(layout.error().place.column, column);
  EXPECT_EQ(layout.error().place.found, found);
  EXPECT_EQ(layout.error().place.expected, expected);
}

TEST(Layout, ReadsMegatronsExample) {
  // Megatron-LM, docs of the custom pipeline layout: DeepSeek-V3, 61 layers and one for multi-token
  // prediction on 16 ranks with two stages each.
  const PipelineLayout layout = parse_layout("Et*3|(tt|)*29,m|L").value();
  ASSERT_EQ(layout.stages.size(), 32U);
  EXPECT_EQ(layout.stages[0], (StageContents{.embedding = true, .layers = 3}));
  for (std::size_t s = 1; s <= 29; ++s) EXPECT_EQ(layout.stages[s], StageContents{.layers = 2});
  EXPECT_EQ(layout.stages[30], StageContents{.mtp = 1});
  EXPECT_EQ(layout.stages[31], StageContents{.loss = true});
  EXPECT_EQ(layout.layers(), 61);
  EXPECT_EQ(layout.mtp(), 1);
  EXPECT_EQ(layout_text(layout), "Et*3|(tt|)*29,m|L");
  EXPECT_TRUE(check_layout(layout, 61, 32).has_value());
}

TEST(Layout, UnrollsWhatMegatronUnrolls) {
  EXPECT_EQ(rewritten("E,t,t|t,t,L"), "Ett|ttL");
  EXPECT_EQ(rewritten("E(t|t)*3L"), "Et|tt|tt|tL") << "a group may begin and end within a stage";
  EXPECT_EQ(rewritten("E(t*2|)*2L"), "Ett|tt|L") << "a number within a group";
  EXPECT_EQ(rewritten("E|*2L"), "E||L") << "a boundary has no contents to repeat, but repeats";
  EXPECT_EQ(rewritten("Et*0|L"), "E|L");
  EXPECT_EQ(rewritten("EL"), "EL");
}

TEST(Layout, WritesRunsOfThreeWithAStar) {
  EXPECT_EQ(rewritten("Ett|tt|tt|L"), "Ett|tt|tt|L");
  EXPECT_EQ(rewritten("E|tt|tt|tt|L"), "E|(tt|)*3,L");
  EXPECT_EQ(rewritten("E|tt|tt|tt|ttL"), "E|(tt|)*3,ttL");
  EXPECT_EQ(rewritten("E|tt|tt|tt||L"), "E|(tt|)*3|L") << "an empty stage behind a run";
  EXPECT_EQ(rewritten("E|t|t|t|tt|tt|tt|L"), "E|(t|)*3,(tt|)*3,L");
  EXPECT_EQ(rewritten("E||||tttmmmL"), "E|(|)*3,t*3,m*3,L");
}

TEST(Layout, RefusesWithColumnFoundAndExpected) {
  const std::string item = "E, t, m, L, | or a group in parentheses";
  expect_refusal("", 1, "its end", "L");
  expect_refusal("Etx|L", 3, "x", item);
  expect_refusal("Et |L", 3, " ", item);
  expect_refusal("E*t|L", 3, "t", "a whole number");
  expect_refusal("Et*-1|L", 4, "-", "a whole number");
  expect_refusal("Et*2*3|L", 5, "*", item);
  expect_refusal("Et*2,3|L", 6, "3", item);
  expect_refusal("Et,*2|L", 4, "*", item);
  expect_refusal("E(tt|L", 7, "its end", ")");
  expect_refusal("E(tt|)L", 7, "L", "* and a number after a group");
  expect_refusal("E()*2L", 3, ")", item);
  expect_refusal("Ett)*2L", 4, ")", item);
  expect_refusal("E((t|)*2t|)*2L", 3, "(", "no parentheses within parentheses");
  expect_refusal("Et*9999999|L", 11, "|", "at most 1048576 letters and boundaries");
  expect_refusal("Et*99999999999999999999999|L", 27, "|", "at most 1048576 letters and boundaries");
}

TEST(Layout, RefusesAnotherOrder) {
  const std::string order = "another order";
  expect_refusal("tt|L", 1, "t", "E");
  expect_refusal("Et|t", 5, "its end", "L");
  expect_refusal("Et|Et|L", 4, "E after t", order);
  expect_refusal("Em|t|L", 4, "t after m", order);
  expect_refusal("Et|LL", 5, "L after L", order);
  expect_refusal("E*2t|L", 1, "E after E", order);
  expect_refusal("|Et|L", 1, "|", "E");
  expect_refusal("Et|L|", 5, "|", "the end of the layout");
}

TEST(Layout, EvenGivesTheRemainderToEarlierStages) {
  EXPECT_EQ(layout_text(even_layout(10, 4)), "Et*3|t*3|tt|ttL");
  EXPECT_EQ(layout_text(even_layout(2, 4)), "Et|t||L");
  EXPECT_EQ(layout_text(even_layout(5, 1)), "Et*5,L");
}

TEST(Layout, ChecksStagesLayersAndEnds) {
  const PipelineLayout layout = parse_layout("Et|tt|tL").value();
  EXPECT_TRUE(check_layout(layout, 4, 3).has_value());
  EXPECT_EQ(check_layout(layout, 4, 6).error().place.expected, "6");
  EXPECT_EQ(check_layout(layout, 5, 3).error().place.found, "4 layers");
  PipelineLayout broken = layout;
  broken.stages[1].embedding = true;
  EXPECT_EQ(check_layout(broken, 4, 3).error().place.found, "E");
  broken = layout;
  broken.stages[2].loss = false;
  EXPECT_EQ(check_layout(broken, 4, 3).error().place.expected, "L");
  broken = layout;
  broken.stages[1].mtp = 1;
  EXPECT_FALSE(check_layout(broken, 4, 3).has_value()) << "a layer behind a multi-token prediction layer";
  EXPECT_FALSE(check_layout({}, 0, 1).has_value());
}

TEST(Layout, BalancedWeighsTheEnds) {
  const std::vector<Nanoseconds> layers(8, 10);
  EXPECT_EQ(layout_text(balanced_layout({0, layers, 0}, 4)), "Ett|tt|tt|ttL");
  EXPECT_EQ(layout_text(balanced_layout({0, layers, 0}, 3)), "Ett|t*3|t*3,L");
  // A loss as long as two layers: no stage of four can be below 30, and the squares 1, 4, 4, 9 are the least.
  EXPECT_EQ(layout_text(balanced_layout({0, layers, 20}, 4)), "Ett|tt|t*3|tL");
  EXPECT_EQ(layout_text(balanced_layout({30, layers, 30}, 5)), "E|tt|t*3|t*3|L");
  EXPECT_EQ(layout_text(balanced_layout({1, {1, 1}, 1}, 6)), "E|||t|t|L") << "more stages than layers";
  EXPECT_EQ(layout_text(balanced_layout({1, {}, 1}, 1)), "EL");
}

}  // namespace
}  // namespace ppsim
