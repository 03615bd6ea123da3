#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "ppsim/planner/synthesis.hpp"

namespace ppsim::test::placed {
namespace {

int drawn(int least, int most) { return *rc::gen::inRange(least, most + 1); }

/// Each rank has a stage, in any order, and up to four more are anywhere.
std::vector<RankId> drawn_placement(int ranks) {
  std::vector<RankId> placement;
  for (int r = 0; r < ranks; ++r) placement.emplace_back(r);
  for (int more = drawn(0, 4); more > 0; --more) {
    const auto at = placement.begin() + drawn(0, static_cast<int>(placement.size()));
    placement.insert(at, RankId(drawn(0, ranks - 1)));
  }
  return placement;
}

/// Of every stage of the placement.
void draw_costs(SynthesisRequest& request) {
  for (int s = 0; s < static_cast<int>(request.placement.size()); ++s) {
    for (const OpKind kind :
         {OpKind::forward, OpKind::backward, OpKind::backward_input, OpKind::backward_weight})
      request.costs.set({kind, s}, drawn(1, 6) * kUnitTime);
  }
}

SynthesisRequest drawn_request() {
  SynthesisRequest request;
  request.ranks = drawn(1, 4);
  request.microbatches = drawn(1, 8);
  request.placement = drawn_placement(request.ranks);
  request.activation_limit = drawn(1, 2 * request.microbatches);
  request.backward = drawn(0, 3) == 0 ? BackwardForm::fused : BackwardForm::split;
  request.objective = drawn(0, 1) == 0 ? Objective::makespan : Objective::span;
  draw_costs(request);
  request.costs.set({OpKind::send_forward}, drawn(0, 3) * kUnitTime);
  request.costs.set({OpKind::send_backward}, drawn(0, 3) * kUnitTime);
  request.max_steps = drawn(0, 2'000);
  request.seed = static_cast<std::uint64_t>(drawn(0, 100));
  return request;
}

RC_GTEST_PROP(PlacedSynthesis, IsWithinTheLimitProvedAndAsLongAsItSays, ()) {
  const SynthesisRequest request = drawn_request();
  const auto answer = synthesize(request);
  RC_ASSERT(answer.has_value());
  if (const auto* none = std::get_if<NoSchedule>(&*answer)) {
    RC_ASSERT(none->reason.find("is needed, the limit is") != std::string::npos);
    return;
  }
  const auto& found = std::get<Synthesized>(*answer);
  RC_ASSERT(objective_of(found.schedule, request.costs, request.objective) == found.value);
  RC_ASSERT(found.lower_bound <= found.value);
  RC_ASSERT(peak_live_microbatches(found.schedule) <= request.activation_limit);
  const SizeTable sizes = activation_size_table(1);
  RC_ASSERT(found.certificate.has_value());
  RC_ASSERT(check_certificate(*found.certificate, found.program, &sizes).has_value());
}

/// A bound holds for every schedule, whatever found it.
RC_GTEST_PROP(PlacedSynthesis, BoundsWhatIsKnownFromBelow, ()) {
  SynthesisRequest request = drawn_request();
  const auto chunks = drawn(1, 3);
  request.placement = *parse_placement({drawn(0, 1) == 0 ? "v" : "loop", chunks, request.ranks});
  draw_costs(request);
  request.max_steps = 0;
  const auto answer = synthesize(request);
  RC_ASSERT(answer.has_value());
  RC_PRE(std::holds_alternative<Synthesized>(*answer));
  const auto& found = std::get<Synthesized>(*answer);
  for (const Schedule& schedule : known_schedules(request))
    RC_ASSERT(*objective_of(schedule, request.costs, request.objective) >= found.lower_bound);
  SynthesisRequest longer = request;
  longer.max_steps = 20'000;
  RC_ASSERT(std::get<Synthesized>(*synthesize(longer)).value >= found.lower_bound);
}

}  // namespace
}  // namespace ppsim::test::placed
