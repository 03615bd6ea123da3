// Synthesis with several stages on a rank.

#include <gtest/gtest.h>

#include <random>

#include "ppsim/schedules/registry.hpp"
#include "ppsim/verifier/synthesis/synthesis.hpp"
#include "unit/verifier/all_orders.hpp"

namespace ppsim::test::placed {
namespace {

std::vector<RankId> placement(std::initializer_list<int> ranks) {
  std::vector<RankId> result;
  for (const int rank : ranks) result.emplace_back(rank);
  return result;
}

std::vector<RankId> v_placement(int ranks) {
  std::vector<RankId> result;
  for (int r = 0; r < ranks; ++r) result.emplace_back(r);
  for (int r = ranks; r-- > 0;) result.emplace_back(r);
  return result;
}

SynthesisRequest v_request(int ranks, int microbatches, int limit) {
  SynthesisRequest request;
  request.ranks = ranks;
  request.microbatches = microbatches;
  request.placement = v_placement(ranks);
  request.activation_limit = limit;
  request.costs = unit_cost_table({});
  return request;
}

/// Checks on the way what holds of every answer.
Synthesized answer_to(const SynthesisRequest& request) {
  const auto answer = synthesize(request);
  if (!answer) throw std::runtime_error(to_string(answer.error()));
  if (const auto* none = std::get_if<NoSchedule>(&*answer)) throw std::runtime_error(none->reason);
  const auto& found = std::get<Synthesized>(*answer);
  EXPECT_EQ(objective_of(found.schedule, request.costs, request.objective), found.value);
  EXPECT_LE(found.lower_bound, found.value);
  EXPECT_EQ(found.open.empty(), found.optimal());
  if (!request.bytes) {
    EXPECT_LE(peak_live_microbatches(found.schedule), request.activation_limit);
  }
  const SizeTable sizes = request.bytes ? request.bytes->sizes : activation_size_table(1);
  EXPECT_TRUE(found.certificate && check_certificate(*found.certificate, found.program, &sizes));
  return found;
}

int drawn(std::mt19937_64& random, int least, int most) {
  return least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1));
}

CostTable drawn_costs(std::mt19937_64& random, int stages, int most) {
  CostTable costs;
  for (int s = 0; s < stages; ++s) {
    for (const OpKind kind : {OpKind::forward, OpKind::backward_input, OpKind::backward_weight})
      costs.set({kind, s}, drawn(random, 1, most) * kUnitTime);
  }
  costs.set({OpKind::send_forward}, drawn(random, 0, 2) * kUnitTime);
  costs.set({OpKind::send_backward}, drawn(random, 0, 2) * kUnitTime);
  return costs;
}

// ---- against every order of two ranks ----

void expect_exhaustive_optimum(const Job& job, std::optional<std::int64_t> steps) {
  for (const auto& [limit, best] : exhaustive(job)) {
    SynthesisRequest request;
    request.ranks = 2;
    request.microbatches = job.microbatches;
    request.placement = job.placement;
    request.activation_limit = limit;
    request.costs = job.costs;
    request.max_steps = steps;
    for (const Objective objective : {Objective::makespan, Objective::span}) {
      if (!steps && objective == Objective::span) continue;  // its bounds need not be reached
      request.objective = objective;
      const Nanoseconds optimum = objective == Objective::makespan ? best.first : best.second;
      const Synthesized found = answer_to(request);
      EXPECT_EQ(found.value, optimum) << objective_name(objective) << ", limit " << limit;
      EXPECT_LE(found.lower_bound, optimum) << objective_name(objective) << ", limit " << limit;
      if (!steps) {
        EXPECT_TRUE(found.optimal()) << found.open;
      }
    }
  }
}

TEST(PlacedSynthesis, IsTheBestOfAllOrdersOfAV) {
  std::mt19937_64 random(1);
  const auto folded = placement({0, 1, 1, 0});
  expect_exhaustive_optimum({folded, 2, unit_cost_table({})}, {});
  expect_exhaustive_optimum({folded, 2, drawn_costs(random, 4, 5)}, 100'000);
}

TEST(PlacedSynthesis, IsTheBestOfAllOrdersOfALoop) {
  std::mt19937_64 random(2);
  const auto loop = placement({0, 1, 0, 1});
  expect_exhaustive_optimum({loop, 2, unit_cost_table({})}, {});
  expect_exhaustive_optimum({loop, 2, drawn_costs(random, 4, 5)}, 100'000);
}

TEST(PlacedSynthesis, IsTheBestOfAllOrdersWhereARankHasMoreStages) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 2; ++i) {
    expect_exhaustive_optimum({placement({0, 0, 1}), 2, drawn_costs(random, 3, 5)}, 400'000);
    expect_exhaustive_optimum({placement({0, 1, 0}), 2, drawn_costs(random, 3, 5)}, 400'000);
  }
}

// ---- against published schedules ----

/// ZB-V needs the activations of 1F1B, V-Half about half of them.
/// Source: Qi et al., "Pipeline parallelism with controllable memory", arXiv 2405.15362.
TEST(PlacedSynthesis, IsAtLeastAsShortAsZbVAndVHalfAtTheirMemory) {
  std::mt19937_64 random(4);
  int shorter = 0;
  for (int i = 0; i < 50; ++i) {
    const CostTable costs = drawn_costs(random, 8, 9);
    for (const char* name : {"zb-v", "v-half"}) {
      const Schedule rival = *generate(name, {.ranks = 4, .microbatches = 8});
      SynthesisRequest request = v_request(4, 8, peak_live_microbatches(rival));
      request.costs = costs;
      request.max_steps = 2'000;
      request.known = {rival};
      const Nanoseconds value = *objective_of(rival, costs, Objective::makespan);
      const Synthesized found = answer_to(request);
      EXPECT_LE(found.value, value) << name << ", costs " << i;
      shorter += found.value < value ? 1 : 0;
    }
  }
  EXPECT_GE(shorter, 90) << "of 100: these orders are made for equal costs";
}

/// At equal costs ZB-V on p ranks has no bubble but that of warm-up and cool-down: nothing is shorter.
TEST(PlacedSynthesis, ProvesThatZbVIsOptimalAtEqualCosts) {
  for (const int ranks : {2, 4, 8}) {
    SynthesisRequest request = v_request(ranks, 4 * ranks, 2 * ranks);
    request.known = {*generate("zb-v", {.ranks = ranks, .microbatches = 4 * ranks})};
    request.max_steps = 0;
    const Synthesized found = answer_to(request);
    EXPECT_TRUE(found.optimal());
    EXPECT_EQ(found.value, (6 * 4 * ranks + ranks - 1) * kUnitTime);
  }
}

TEST(PlacedSynthesis, IsShorterThanAdaptiveVAtHalfTheMemory) {
  SynthesisRequest request = v_request(8, 32, 8);
  request.costs = unit_cost_table({.F = 5, .I = 6, .W = 4, .c = 0.5});
  request.known = {*generate(
      "v-adaptive",
      {.ranks = 8, .microbatches = 32, .settings = {{"memory_limit", "8"}}, .costs = request.costs})};
  request.max_steps = 20'000;
  EXPECT_LT(answer_to(request).value, *objective_of(request.known[0], request.costs, Objective::makespan));
}

// ---- limits ----

/// Where only activations take memory, a limit in bytes is one of activations.
TEST(PlacedSynthesis, FindsTheSameWithinBytesAsWithinActivations) {
  std::mt19937_64 random(5);
  for (int limit = 2; limit <= 6; limit += 2) {
    SynthesisRequest request = v_request(3, 6, limit);
    request.costs = drawn_costs(random, 6, 5);
    request.max_steps = 5'000;
    const Synthesized counted = answer_to(request);
    request.bytes = ByteLimit{activation_size_table(1000), 1000 * limit};
    request.activation_limit = 0;
    const Synthesized weighed = answer_to(request);
    EXPECT_EQ(weighed.value, counted.value);
    EXPECT_EQ(weighed.schedule, counted.schedule);
    EXPECT_LE(weighed.worst_bytes, 1000 * limit);
  }
}

SizeTable drawn_sizes(std::mt19937_64& random, int stages) {
  SizeTable sizes;
  for (int s = 0; s < stages; ++s) {
    for (const TensorKind kind :
         {TensorKind::parameters, TensorKind::optimizer_state, TensorKind::gradients,
          TensorKind::boundary_input, TensorKind::boundary_output, TensorKind::saved_for_input,
          TensorKind::saved_for_weight, TensorKind::incoming_gradient, TensorKind::outgoing_gradient,
          TensorKind::inner_gradients})
      sizes.set({.kind = kind, .subject = s}, drawn(random, 0, 20));
    for (const OpKind kind : {OpKind::forward, OpKind::backward_input, OpKind::backward_weight})
      sizes.set({.kind = TensorKind::workspace, .subject = s, .op = kind}, drawn(random, 0, 20));
  }
  return sizes;
}

/// answer_to checks the certificate, which is about every timing.
TEST(PlacedSynthesis, KeepsToALimitInBytesInEveryTiming) {
  std::mt19937_64 random(6);
  int found = 0;
  for (int i = 0; i < 30; ++i) {
    SynthesisRequest request = v_request(3, 5, 0);
    if (i % 3 == 1) request.placement = placement({0, 1, 2, 0, 1, 2});
    if (i % 3 == 2) request.placement = {};
    request.costs = drawn_costs(random, 6, 5);
    request.bytes = ByteLimit{drawn_sizes(random, 6), drawn(random, 200, 600)};
    request.max_steps = 1'000;
    const auto answer = synthesize(request);
    ASSERT_TRUE(answer) << answer.error().message;
    if (std::holds_alternative<NoSchedule>(*answer)) continue;
    ++found;
    const Synthesized within = answer_to(request);
    EXPECT_GT(within.worst_bytes, 0);
    EXPECT_LE(within.worst_bytes, request.bytes->per_rank);
  }
  EXPECT_GE(found, 10);
}

TEST(PlacedSynthesis, SaysWhyThereIsNoSchedule) {
  const auto reason = [](const SynthesisRequest& request) {
    return std::get<NoSchedule>(synthesize(request).value()).reason;
  };
  EXPECT_EQ(reason(v_request(3, 4, 1)),
            "rank 0 holds a microbatch on all of its stages between its F and its W or B: at least 2 is "
            "needed, the "
            "limit is 1");
  SynthesisRequest request = v_request(3, 4, 0);
  request.bytes = ByteLimit{activation_size_table(10), 19};
  EXPECT_EQ(reason(request), "rank 0 needs 20 bytes for its parameters and one microbatch, the limit is 19");
}

// ---- the search ----

TEST(PlacedSynthesis, IsTheSameForASeedAndANumberOfSteps) {
  std::mt19937_64 random(7);
  SynthesisRequest request = v_request(4, 8, 5);
  request.costs = drawn_costs(random, 8, 9);
  request.max_steps = 3'000;
  const Synthesized first = answer_to(request);
  const Synthesized again = answer_to(request);
  EXPECT_EQ(first.schedule, again.schedule);
  EXPECT_EQ(first.steps, again.steps);
  EXPECT_LE(first.steps, 3'000);
  EXPECT_EQ(first.queries, 0);
  request.max_steps = 30'000;
  EXPECT_LE(answer_to(request).value, first.value);
}

TEST(PlacedSynthesis, RaisesTheBoundByZ3WhereThereAreFewStartTimes) {
  SynthesisRequest request = v_request(2, 3, 2);
  const Synthesized found = answer_to(request);
  EXPECT_TRUE(found.optimal()) << found.open;
  EXPECT_EQ(found.bound_method, "time-indexed");
  request.max_steps = 10'000;
  EXPECT_EQ(answer_to(request).value, found.value);
}

TEST(PlacedSynthesis, RunsFusedBackwards) {
  SynthesisRequest request = v_request(4, 8, 8);
  request.backward = BackwardForm::fused;
  request.max_steps = 5'000;
  const Synthesized found = answer_to(request);
  // Rank 0 computes 6 units for each microbatch; the last B of stage 0 follows all others' of its microbatch.
  EXPECT_GE(found.value, 6 * 8 * kUnitTime);
  for (const Cell& cell : found.schedule.row(RankId(0)))
    EXPECT_NE(cell.actions()[0].kind, OpKind::backward_weight);
}

TEST(PlacedSynthesis, RefusesPlacementsThatAreNone) {
  const auto message = [](std::vector<RankId> ranks) {
    SynthesisRequest request = v_request(2, 4, 4);
    request.placement = std::move(ranks);
    const auto answer = synthesize(request);
    return answer ? "" : answer.error().message;
  };
  EXPECT_EQ(message(placement({0, 2, 1})), "cannot synthesise:\nrank of stage 1: found 2, expected 0 to 1");
  EXPECT_EQ(message(placement({0, 0})), "cannot synthesise:\nrank 1 has no stage");
  SynthesisRequest request = v_request(2, 4, 4);
  request.kept_order = *generate("1f1b", {.ranks = 2, .microbatches = 4});
  EXPECT_FALSE(synthesize(request));
}

}  // namespace
}  // namespace ppsim::test::placed
