#include "ppsim/verifier/synthesis/synthesis.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>

#include "ppsim/schedules/registry.hpp"

namespace ppsim::test {
namespace {

SynthesisRequest unit_request(int ranks, int microbatches, int limit) {
  SynthesisRequest request;
  request.ranks = ranks;
  request.microbatches = microbatches;
  request.activation_limit = limit;
  request.costs = unit_cost_table({});
  return request;
}

/// In units; checks on the way what holds of every answer.
Synthesized answer_to(const SynthesisRequest& request) {
  const auto answer = synthesize(request);
  if (!answer) throw std::runtime_error(to_string(answer.error()));
  const auto& found = std::get<Synthesized>(*answer);
  EXPECT_EQ(objective_of(found.schedule, request.costs, request.objective), found.value);
  EXPECT_LE(found.lower_bound, found.value);
  EXPECT_EQ(found.open.empty(), found.optimal());
  EXPECT_LE(peak_live_microbatches(found.schedule), request.activation_limit);
  const SizeTable sizes = activation_size_table(1);
  EXPECT_TRUE(found.certificate && check_certificate(*found.certificate, found.program, &sizes));
  return found;
}

Nanoseconds optimum_of(const SynthesisRequest& request) {
  const Synthesized found = answer_to(request);
  EXPECT_TRUE(found.optimal()) << found.open;
  return found.value / kUnitTime;
}

TEST(Synthesis, TellsOfEachStepForward) {
  SynthesisRequest request = unit_request(3, 8, 2);
  std::vector<std::pair<Nanoseconds, Nanoseconds>> told;
  request.progress = [&](const SynthesisProgress& best) {
    EXPECT_EQ(objective_of(best.schedule, request.costs, request.objective), best.value);
    told.emplace_back(best.value, best.lower_bound);
  };
  const Synthesized found = answer_to(request);
  ASSERT_GE(told.size(), 2U) << "at first something, then what is known in the end";
  for (std::size_t i = 1; i < told.size(); ++i) {
    EXPECT_NE(told[i], told[i - 1]);
    EXPECT_LE(told[i].first, told[i - 1].first);
    EXPECT_GE(told[i].second, told[i - 1].second);
  }
  EXPECT_EQ(told.back(), std::pair(found.value, found.lower_bound));
}

// ---- every order of two ranks, timed by a few lines of its own ----

constexpr int kPhases = 3;
/// phase * 8 + microbatch
using Row = std::vector<int>;

void extend(Row& row, std::vector<int>& done, std::vector<Row>& rows) {
  if (row.size() == kPhases * done.size()) {
    rows.push_back(row);
    return;
  }
  for (std::size_t i = 0; i < done.size(); ++i) {
    if (done[i] == kPhases) continue;
    row.push_back(8 * done[i]++ + static_cast<int>(i));
    extend(row, done, rows);
    row.pop_back();
    --done[i];
  }
}

std::vector<Row> all_rows(int microbatches) {
  Row row;
  std::vector<int> done(static_cast<std::size_t>(microbatches), 0);
  std::vector<Row> rows;
  extend(row, done, rows);
  return rows;
}

int peak_of(const Row& row) {
  int live = 0;
  int peak = 0;
  for (const int item : row) {
    if (item / 8 == 0) peak = std::max(peak, ++live);
    if (item / 8 == kPhases - 1) --live;
  }
  return peak;
}

struct Costs {
  std::array<std::array<int, kPhases>, 2> of;  ///< rank, phase
  int forward = 0;                             ///< transfer
  int backward = 0;
};

struct Values {
  int makespan = 0;
  int span = 0;
};

/// Nothing when the rows wait for each other.
std::optional<Values> timed(const std::array<const Row*, 2>& rows, const Costs& costs) {
  std::array<std::array<int, 24>, 2> ends;
  for (auto& row : ends) row.fill(-1);
  std::array<std::size_t, 2> next = {};
  std::array<int, 2> free = {};
  std::array<int, 2> begin = {-1, -1};
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t r = 0; r < 2; ++r) {
      for (; next[r] < rows[r]->size(); ++next[r], moved = true) {
        const int item = (*rows[r])[next[r]];
        const int phase = item / 8;
        int start = free[r];
        if ((phase == 0 && r == 1) || (phase == 1 && r == 0)) {
          const int arrived = ends[1 - r][static_cast<std::size_t>(item)];
          if (arrived < 0) break;
          start = std::max(start, arrived + (phase == 0 ? costs.forward : costs.backward));
        }
        if (begin[r] < 0) begin[r] = start;
        free[r] = start + costs.of[r][static_cast<std::size_t>(phase)];
        ends[r][static_cast<std::size_t>(item)] = free[r];
      }
    }
  }
  if (next[0] < rows[0]->size() || next[1] < rows[1]->size()) return std::nullopt;
  return Values{std::max(free[0], free[1]), std::max(free[0] - begin[0], free[1] - begin[1])};
}

CostTable table_of(const Costs& costs) {
  CostTable table;
  for (int r = 0; r < 2; ++r) {
    const auto& phases = costs.of[static_cast<std::size_t>(r)];
    table.set({OpKind::forward, r}, phases[0] * kUnitTime);
    table.set({OpKind::backward_input, r}, phases[1] * kUnitTime);
    table.set({OpKind::backward_weight, r}, phases[2] * kUnitTime);
  }
  table.set({OpKind::send_forward}, costs.forward * kUnitTime);
  table.set({OpKind::send_backward}, costs.backward * kUnitTime);
  return table;
}

/// The least objectives by limit, over every order of both ranks.
std::map<int, Values> exhaustive(int microbatches, const Costs& costs) {
  const std::vector<Row> rows = all_rows(microbatches);
  std::map<int, Values> best;
  for (const Row& upper : rows) {
    // Microbatches are alike: those of rank 0 may be numbered in the order of their F.
    std::vector<int> forwards;
    std::ranges::copy_if(upper, std::back_inserter(forwards), [](int item) { return item < 8; });
    if (!std::ranges::is_sorted(forwards)) continue;
    for (const Row& lower : rows) {
      const auto values = timed({&upper, &lower}, costs);
      if (!values) continue;
      for (int limit = std::max(peak_of(upper), peak_of(lower)); limit <= microbatches; ++limit) {
        auto [at, fresh] = best.emplace(limit, *values);
        at->second.makespan = std::min(at->second.makespan, values->makespan);
        at->second.span = std::min(at->second.span, values->span);
      }
    }
  }
  return best;
}

void expect_exhaustive_optimum(int microbatches, const Costs& costs) {
  for (const auto& [limit, values] : exhaustive(microbatches, costs)) {
    SynthesisRequest request = unit_request(2, microbatches, limit);
    request.costs = table_of(costs);
    EXPECT_EQ(optimum_of(request), values.makespan) << microbatches << " microbatches, limit " << limit;
    request.objective = Objective::span;
    EXPECT_EQ(optimum_of(request), values.span) << microbatches << " microbatches, limit " << limit;
  }
}

TEST(Synthesis, IsTheBestOfAllOrdersOfTwoRanksAndTwoMicrobatches) {
  for (int forward = 1; forward <= 3; ++forward) {
    for (int input = 1; input <= 3; ++input) {
      for (int weight = 1; weight <= 3; ++weight) {
        const std::array phases = {forward, input, weight};
        expect_exhaustive_optimum(2, {{phases, phases}, (forward + input) % 2, weight % 2});
      }
    }
  }
  expect_exhaustive_optimum(2, {{{{5, 1, 2}, {1, 4, 3}}}, 2, 1});
}

TEST(Synthesis, IsTheBestOfAllOrdersOfTwoRanksAndThreeMicrobatches) {
  expect_exhaustive_optimum(3, {{{{1, 1, 1}, {1, 1, 1}}}, 0, 0});
  expect_exhaustive_optimum(3, {{{{2, 3, 1}, {3, 1, 2}}}, 1, 0});
}

// ---- what is known of larger ones ----

TEST(Synthesis, ProvesTheOptimaOfUnitCosts) {
  EXPECT_EQ(optimum_of(unit_request(4, 6, 4)), 21);
  EXPECT_EQ(optimum_of(unit_request(4, 12, 4)), 39);
  EXPECT_EQ(optimum_of(unit_request(8, 16, 5)), 68);
  EXPECT_EQ(optimum_of(unit_request(8, 32, 8)), 103);
}

TEST(Synthesis, RaisesTheBoundWhereTheRelaxationIsBelowTheOptimum) {
  const Synthesized found = answer_to(unit_request(8, 32, 5));
  EXPECT_TRUE(found.optimal());
  EXPECT_EQ(found.value, 127 * kUnitTime);
  EXPECT_EQ(found.bound_method, "time-indexed");
}

TEST(Synthesis, ShortensTheSpanThatGreedyZeroBubbleLeaves) {
  SynthesisRequest request = unit_request(4, 8, 8);
  request.costs = unit_cost_table({.F = 5, .I = 6, .W = 4});
  request.objective = Objective::span;
  EXPECT_EQ(optimum_of(request), 125);
}

TEST(Synthesis, RepeatsAPeriodWhereThereAreManyMicrobatches) {
  const Synthesized found = answer_to(unit_request(8, 64, 8));
  EXPECT_EQ(found.value, (3 * 64 + 7) * kUnitTime);
  EXPECT_TRUE(found.optimal());
  EXPECT_EQ(found.method, "repetend");
}

TEST(Synthesis, OfOneLiveMicrobatchRunsThemOneByOne) {
  // F down and I up through every rank; W of the first rank while the next microbatch cannot start before.
  EXPECT_EQ(optimum_of(unit_request(3, 4, 1)), 4 * 7);
  EXPECT_EQ(optimum_of(unit_request(1, 4, 1)), 12);
}

TEST(Synthesis, OfFullBackwardsIsOneFOneBAtItsLimit) {
  SynthesisRequest request = unit_request(4, 8, 4);
  request.backward = BackwardForm::fused;
  EXPECT_EQ(optimum_of(request), 3 * (8 + 4 - 1));
  request.activation_limit = 2;
  EXPECT_GT(optimum_of(request), 3 * (8 + 4 - 1));
}

TEST(Synthesis, CountsTransfers) {
  SynthesisRequest request = unit_request(4, 6, 6);
  request.costs = unit_cost_table({.c = 4});
  EXPECT_EQ(optimum_of(request), 43);
}

// ---- the order of W alone ----

/// 1F1B with B as I and W behind each other.
TEST(Synthesis, PlacesTheWeightGradientsOfAGivenOrder) {
  SynthesisRequest request = unit_request(4, 12, 4);
  request.kept_order = *generate("1f1b", {.ranks = 4, .microbatches = 12});
  const Synthesized found = answer_to(request);
  EXPECT_TRUE(found.optimal());
  EXPECT_LT(found.value, 3 * (12 + 4 - 1) * kUnitTime);
  const Schedule& kept = *request.kept_order;
  for (int r = 0; r < 4; ++r) {
    std::string expected;
    std::string order;
    for (const Cell& cell : kept.row(RankId(r)))
      expected += cell.actions()[0].kind == OpKind::forward ? 'F' : 'I';
    for (const Cell& cell : found.schedule.row(RankId(r))) {
      if (cell.actions()[0].kind != OpKind::backward_weight)
        order += cell.actions()[0].kind == OpKind::forward ? 'F' : 'I';
    }
    EXPECT_EQ(order, expected) << "rank " << r;
  }
}

/// With its own order of F and I kept, the best schedule can be found again, and nothing better.
TEST(Synthesis, FindsTheOptimumInItsOwnOrder) {
  SynthesisRequest request = unit_request(8, 16, 5);
  request.kept_order = answer_to(request).schedule;
  EXPECT_EQ(optimum_of(request), 68);
}

TEST(Synthesis, SaysWhyAnOrderDoesNotFit) {
  SynthesisRequest request = unit_request(4, 8, 3);
  request.kept_order = *generate("1f1b", {.ranks = 4, .microbatches = 8});
  const auto answer = synthesize(request);
  ASSERT_TRUE(answer);
  EXPECT_EQ(std::get<NoSchedule>(*answer).reason,
            "the order that is kept holds 4 microbatches on rank 0 however early their W is, the limit is 3: "
            "0F0 to 0F3 stand before 0I0");
}

TEST(Synthesis, RefusesAnOrderThatIsNotOfItsChain) {
  const auto refused = [](SynthesisRequest request, const char* schedule, ScheduleParameters parameters) {
    request.kept_order = *generate(schedule, parameters);
    const auto answer = synthesize(request);
    return answer ? "" : answer.error().message;
  };
  SynthesisRequest request = unit_request(4, 8, 8);
  EXPECT_NE(refused(request, "1f1b", {.ranks = 4, .microbatches = 7}).find("another chain"),
            std::string::npos);
  EXPECT_NE(refused(request, "dualpipe-v", {.ranks = 4, .microbatches = 8}).find("another chain"),
            std::string::npos);
  request.backward = BackwardForm::fused;
  EXPECT_NE(refused(request, "1f1b", {.ranks = 4, .microbatches = 8}).find("leaves nothing open"),
            std::string::npos);
}

// ---- what is given and what is asked for ----

TEST(Synthesis, IsNeverWorseThanAKnownSchedule) {
  SynthesisRequest request = unit_request(8, 32, 5);
  const Schedule best = answer_to(request).schedule;
  request.timeout_s = 0.001;
  EXPECT_GT(answer_to(request).value, 127 * kUnitTime);
  request.known.push_back(best);
  const Synthesized found = answer_to(request);
  EXPECT_EQ(found.value, 127 * kUnitTime);
  EXPECT_EQ(found.schedule, best);
  EXPECT_EQ(found.method, "known");
}

TEST(Synthesis, PassesOverKnownSchedulesThatAreNoAnswer) {
  SynthesisRequest request = unit_request(4, 8, 2);
  request.timeout_s = 0.001;
  request.known.push_back(*generate("zb-h2", {.ranks = 4, .microbatches = 8}));  // over the limit
  request.known.push_back(*generate("zb-h1", {.ranks = 4, .microbatches = 7}));  // another chain
  request.known.push_back(*generate("1f1b", {.ranks = 4, .microbatches = 8}));   // B
  EXPECT_NE(answer_to(request).method, "known");
}

TEST(Synthesis, OutOfTimeIsNotOptimal) {
  SynthesisRequest request = unit_request(8, 32, 5);
  request.timeout_s = 1e-6;
  const Synthesized found = answer_to(request);
  EXPECT_FALSE(found.optimal());
  EXPECT_EQ(found.open, "time limit reached");
  EXPECT_LE(found.lower_bound, 127 * kUnitTime);
  EXPECT_GE(found.value, 127 * kUnitTime);
}

TEST(Synthesis, GivesTheBestSoFarWhenNoLongerAsked) {
  SynthesisRequest request = unit_request(8, 32, 5);
  request.timeout_s = 3600;
  request.stopped = [] { return true; };
  const SynthesisAnswer answer = synthesize(request).value();
  const auto& found = std::get<Synthesized>(answer);
  EXPECT_FALSE(found.optimal());
  EXPECT_FALSE(found.certificate.has_value());
}

TEST(Synthesis, SaysWhyThereIsNoSchedule) {
  const auto answer = synthesize(unit_request(4, 8, 0));
  ASSERT_TRUE(answer);
  EXPECT_NE(std::get<NoSchedule>(*answer).reason.find("at least 1 is needed"), std::string::npos);
}

TEST(Synthesis, NamesEveryParameterThatIsOutOfRange) {
  SynthesisRequest request = unit_request(0, -1, -2);
  request.timeout_s = 0;
  const auto counts = synthesize(request);
  ASSERT_FALSE(counts);
  for (const char* name : {"ranks", "microbatches", "activation limit", "timeout"})
    EXPECT_NE(counts.error().message.find(name), std::string::npos) << name;

  request = unit_request(2, 2, 2);
  request.costs = CostTable();
  request.costs.set({OpKind::forward}, 1);
  request.costs.set({OpKind::backward_input, 0}, 1);
  const auto costs = synthesize(request);
  ASSERT_FALSE(costs);
  EXPECT_EQ(costs.error().message,
            "cannot synthesise:\ncost of 1I: found 0 ns, expected more\n"
            "cost of 0W: found 0 ns, expected more\ncost of 1W: found 0 ns, expected more");
  request.costs.set({OpKind::backward_input}, 1'000'000'000'000'000'000);
  request.costs.set({OpKind::backward_weight}, 1);
  EXPECT_FALSE(synthesize(request));
}

}  // namespace
}  // namespace ppsim::test
