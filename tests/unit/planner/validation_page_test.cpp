#include "ppsim/planner/validation_page.hpp"

#include <gtest/gtest.h>

namespace ppsim {
namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// A step of 8 s that took 10 s, one that took 9 s and is not simulated, and 3 GiB simulated as 3.3 GiB.
Validation two_rows() {
  Validation validation;
  RunDescription run;
  run.model.experts = 8;
  validation.rows = {{.source = "a|b", .label = "fast & small", .run = run},
                     {.source = "c", .label = "odd", .run = NotRun{"no <shape>"}}};
  validation.steps.comparisons = {{.row = 0, .measured = 10, .simulated = 8},
                                  {.row = 1, .measured = 9, .reason = "no <shape>"}};
  validation.steps.all = error_statistics({-20});
  validation.memory.comparisons = {
      {.row = 0, .rank = 1, .measured = 3 * 1073741824.0, .simulated = 3.3 * 1073741824.0}};
  validation.constants = {{"fast", 0.5, "s", "steps", true}, {"slow", 2, "bytes", "a paper", false}};
  return validation;
}

TEST(ValidationPage, TablesHaveEveryRow) {
  const std::string page = validation_page(two_rows());
  EXPECT_TRUE(has(page, "| a\\|b | fast & small | 8.000 | 10.000 | -20.00 |\n")) << page;
  EXPECT_TRUE(has(page, "| c | odd | no &lt;shape> |\n")) << page;
  EXPECT_TRUE(has(page, "| a\\|b | fast & small, rank 1 | 3.30 | 3.00 | +10.00 |\n")) << page;
  EXPECT_TRUE(has(page, "| all | 1 | 20.00 | -20.00 | 20.00 | 20.00 | 20.00 | 0 % | 0 % |\n")) << page;
  EXPECT_LT(page.find("| `fast` | 0.5 | s | steps |"), page.find("| `slow` | 2 | bytes | a paper |"));
  EXPECT_FALSE(has(validation_page(two_rows(), false), "odd"));
}

TEST(ValidationPage, PictureHasAPointForEachSimulatedStep) {
  const std::string picture = validation_picture(two_rows());
  EXPECT_TRUE(
      has(picture, "<title>a|b, fast &amp; small: simulated 8.000 s, measured 10.000 s, -20.0 %</title>"));
  EXPECT_FALSE(has(picture, "odd"));
  EXPECT_TRUE(has(picture, ">published, MoE</text>"));
  EXPECT_FALSE(has(picture, ">published</text>"));
}

TEST(ValidationPage, AxesEndAtRoundNumbersAroundAllPoints) {
  Validation validation = two_rows();
  const auto ticks = [&](double measured, double simulated) {
    validation.steps.comparisons = {{.row = 0, .measured = measured, .simulated = simulated}};
    const std::string picture = validation_picture(validation);
    std::vector<std::string> texts;
    for (std::size_t at = picture.find("text-anchor=\"end\">"); at != std::string::npos;
         at = picture.find("text-anchor=\"end\">", at + 1)) {
      texts.push_back(picture.substr(at + 18, picture.find('<', at) - at - 18));
    }
    return texts;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(ticks(10, 8), (Texts{"5", "10", "-20", "-10", "0", "+10", "+20"}));
  EXPECT_EQ(ticks(0.03, 0.3),
            (Texts{"0.02", "0.05", "0.1", "0.2", "0.5", "-1000", "-500", "0", "+500", "+1000"}));
  EXPECT_EQ(ticks(1, 1), (Texts{"1", "2", "-20", "-10", "0", "+10", "+20"}));
}

TEST(ValidationPage, NothingSimulatedIsAPictureWithoutPoints) {
  EXPECT_TRUE(has(validation_picture({}), "</svg>"));
  EXPECT_FALSE(has(validation_picture({}), "nan"));
}

}  // namespace
}  // namespace ppsim
