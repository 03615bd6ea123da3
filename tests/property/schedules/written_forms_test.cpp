#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "support/draw_parameters.hpp"
#include "support/expect_forms.hpp"
#include "support/formula.hpp"

// Two columns of the tables of schedules agree: the formula as text, and the function that the other
// properties hold against simulation.

namespace ppsim {
namespace {

using test::between;
using test::formula_value;

StageCosts draw_all_costs() {
  StageCosts costs{.forward = between(1, 30), .backward_input = between(1, 30)};
  costs.backward_weight = between(1, static_cast<int>(std::min(costs.forward, costs.backward_input)));
  costs.backward = between(1, 60);
  costs.overlap = between(1, 90);
  return costs;
}

std::map<std::string, double> names_of(const ScheduleInfo& info, const ScheduleParameters& parameters,
                                       const StageCosts& costs) {
  const auto value = [](Nanoseconds time) { return static_cast<double>(time); };
  return {{"p", parameters.ranks},
          {"m", parameters.microbatches},
          {"v", info.chunks(parameters)},
          {"k", parameters.slices},
          {"F", value(costs.forward)},
          {"B", value(costs.backward)},
          {"I", value(costs.backward_input)},
          {"W", value(costs.backward_weight)},
          {"FB", value(costs.overlap)},
          {"c", value(costs.transfer)}};
}

/// A formula and the conditions under which it is written: "p-1 for p | m, B >= F".
struct WrittenForm {
  std::string_view formula;
  std::vector<std::string_view> conditions;
};

WrittenForm split(std::string_view text) {
  WrittenForm form{text.substr(0, text.find(" for ")), {}};
  std::string_view rest = text.substr(std::min(text.size(), form.formula.size() + 5));
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(", "), rest.size());
    form.conditions.push_back(rest.substr(0, end));
    rest.remove_prefix(std::min(rest.size(), end + 2));
  }
  return form;
}

bool holds(std::string_view condition, const std::map<std::string, double>& names) {
  for (const std::string_view relation : {" | ", " >= ", " = "}) {
    const std::size_t at = condition.find(relation);
    if (at == std::string_view::npos) continue;
    const double left = formula_value(condition.substr(0, at), names);
    const double right = formula_value(condition.substr(at + relation.size()), names);
    if (relation == " | ") return std::fmod(right, left) == 0;
    return relation == " = " ? left == right : left >= right;
  }
  throw std::invalid_argument("no condition: " + std::string(condition));
}

/// Nothing where the text says that it is not for these values.
std::optional<double> written_value(std::string_view text, const std::map<std::string, double>& names) {
  const WrittenForm form = split(text);
  for (const std::string_view condition : form.conditions) {
    if (!holds(condition, names)) return std::nullopt;
  }
  return formula_value(form.formula, names);
}

class WrittenBubble : public testing::TestWithParam<ScheduleInfo> {};
class WrittenPeak : public testing::TestWithParam<ScheduleInfo> {};

TEST_P(WrittenBubble, IsTheClosedForm) {
  const ScheduleInfo& info = GetParam();
  int claims = 0;
  EXPECT_TRUE(rc::check([&] {
    ScheduleParameters parameters = test::draw_legal_parameters(info, {.microbatches = 40});
    parameters.settings.clear();
    // Half of the draws at unit costs, which some forms are for.
    const StageCosts costs = between(0, 1) == 0 ? StageCosts{} : draw_all_costs();
    RC_LOG() << parameters << ", " << costs << '\n';
    const auto bubble = closed_form_bubble(info, parameters, costs);
    if (!bubble) return;
    const auto written = written_value(info.forms.bubble, names_of(info, parameters, costs));
    if (!written) return;
    ++claims;
    RC_ASSERT(*written == static_cast<double>(*bubble));
  }));
  EXPECT_GT(claims, 0);
}

TEST_P(WrittenPeak, IsTheLargestOverTheRanks) {
  const ScheduleInfo& info = GetParam();
  int claims = 0;
  EXPECT_TRUE(rc::check([&] {
    ScheduleParameters parameters = test::draw_legal_parameters(info, {.microbatches = 40});
    parameters.settings.clear();
    RC_LOG() << parameters << '\n';
    int most = 0;
    for (int r = 0; r < parameters.ranks; ++r) {
      const auto peak = info.forms.peak_live_activations(parameters, RankId(r));
      if (!peak) return;
      most = std::max(most, *peak);
    }
    const auto written = written_value(info.forms.peak, names_of(info, parameters, {}));
    if (!written) return;
    ++claims;
    RC_ASSERT(*written == most);
  }));
  EXPECT_GT(claims, 0);
}

INSTANTIATE_TEST_SUITE_P(Registry, WrittenBubble,
                         testing::ValuesIn(test::schedules_with([](const ScheduleInfo& schedule) {
                           return !schedule.forms.bubble.empty();
                         })),
                         test::schedule_test_name);
INSTANTIATE_TEST_SUITE_P(Registry, WrittenPeak,
                         testing::ValuesIn(test::schedules_with([](const ScheduleInfo& schedule) {
                           return !schedule.forms.peak.empty();
                         })),
                         test::schedule_test_name);

TEST(WrittenForm, HoldsUnderItsConditions) {
  const std::map<std::string, double> names = {{"p", 4}, {"m", 8}, {"F", 1}, {"B", 2}};
  EXPECT_EQ(written_value("(p-1)(F+B) for p | m, B >= F", names), 9);
  EXPECT_EQ(written_value("(p-1)(F+B) for m | p", names), std::nullopt);
  EXPECT_EQ(written_value("m for F >= B, p | m", names), std::nullopt);
  EXPECT_EQ(written_value("m for F = B", names), std::nullopt);
  EXPECT_EQ(written_value("m for B = 2F", names), 8);
  EXPECT_THROW(static_cast<void>(written_value("m for p", names)), std::invalid_argument);
}

TEST(Formula, ReadsWhatAPersonWrites) {
  const std::map<std::string, double> names = {{"p", 4}, {"v", 2}, {"F", 3}, {"B", 5}, {"FB", 7}};
  EXPECT_EQ(formula_value("(p-1)(F+B)/v", names), 12);
  EXPECT_EQ(formula_value("(p/2 - 1)(FB + B - 3F)", names), 3);
  EXPECT_EQ(formula_value("3p - 7 + 3(p mod 2)", names), 5);
  EXPECT_EQ(formula_value("2 floor((p + 1)/3) + min(pv, 5)", names), 7);
  EXPECT_EQ(formula_value("max(1, ceil(p/3))", names), 2);
  EXPECT_THROW(static_cast<void>(formula_value("(p-1", names)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(formula_value("p ? 1", names)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(formula_value("q", names)), std::invalid_argument);
}

}  // namespace
}  // namespace ppsim
