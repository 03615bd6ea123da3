#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "ppsim/schedules/registry.hpp"
#include "ppsim/verifier/synthesis/synthesis.hpp"
#include "support/budget.hpp"

namespace ppsim::test {
namespace {

int drawn(int least, int most) { return *rc::gen::inRange(least, most + 1); }

CostTable drawn_costs(int ranks) {
  CostTable costs;
  for (int r = 0; r < ranks; ++r) {
    for (const OpKind kind : {OpKind::forward, OpKind::backward_input, OpKind::backward_weight})
      costs.set({kind, r}, drawn(1, 4) * kUnitTime);
  }
  costs.set({OpKind::send_forward}, drawn(0, 3) * kUnitTime);
  costs.set({OpKind::send_backward}, drawn(0, 3) * kUnitTime);
  return costs;
}

SynthesisRequest drawn_request(int max_microbatches) {
  SynthesisRequest request;
  request.ranks = drawn(1, 4);
  request.microbatches = drawn(1, max_microbatches);
  request.activation_limit = drawn(1, request.microbatches + 1);
  request.costs = drawn_costs(request.ranks);
  request.objective = drawn(0, 1) == 0 ? Objective::makespan : Objective::span;
  return request;
}

Synthesized found_for(SynthesisRequest request) {
  const SolverBudget budget(1'000'000);
  request.timeout_s = kNoTimeLimit_s;
  const auto answer = synthesize(request);
  RC_ASSERT(answer.has_value());
  return std::get<Synthesized>(*answer);
}

Synthesized best_for(const SynthesisRequest& request) {
  Synthesized found = found_for(request);
  if (!found.optimal()) leave_undecided(found.open);
  return found;
}

RC_GTEST_PROP(Synthesis, IsWithinTheLimitProvedAndAsLongAsItSays, ()) {
  const SynthesisRequest request = drawn_request(6);
  const Synthesized found = best_for(request);
  RC_ASSERT(objective_of(found.schedule, request.costs, request.objective) == found.value);
  RC_ASSERT(peak_live_microbatches(found.schedule) <= request.activation_limit);
  const SizeTable sizes = activation_size_table(1);
  RC_ASSERT(found.certificate.has_value());
  RC_ASSERT(check_certificate(*found.certificate, found.program, &sizes).has_value());
}

RC_GTEST_PROP(Synthesis, IsNoWorseThanTheGreedyOrderAndNeverBelowItsBound, ()) {
  const SynthesisRequest request = drawn_request(40);
  const ScheduleParameters parameters{
      .ranks = request.ranks,
      .microbatches = request.microbatches,
      .settings = {{"memory_limit", std::to_string(request.activation_limit)}, {"weight_share", "100"}},
      .costs = request.costs};
  const auto greedy = generate("zb-greedy", parameters);
  RC_PRE(greedy.has_value());
  SynthesisRequest helped = request;
  helped.known = {*greedy};
  const Synthesized found = found_for(helped);
  const auto value = objective_of(*greedy, request.costs, request.objective);
  RC_ASSERT(found.value <= *value);
  RC_ASSERT(found.lower_bound <= found.value);
}

/// More room for activations costs no time.
RC_GTEST_PROP(Synthesis, IsMonotoneInTheLimit, ()) {
  SynthesisRequest request = drawn_request(6);
  const Nanoseconds tight = best_for(request).value;
  ++request.activation_limit;
  RC_ASSERT(best_for(request).value <= tight);
}

}  // namespace
}  // namespace ppsim::test
