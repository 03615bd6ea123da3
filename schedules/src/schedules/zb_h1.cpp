#include <algorithm>

#include "families/catalogue.hpp"
#include "families/orders/warmup_order.hpp"
#include "families/rank_rows.hpp"
#include "families/repetitions.hpp"

// ZB-H1: the order of 1F1B with the backward split; rank r runs the W of a microbatch r backwards late and
// fills with them what 1F1B leaves idle at the end, within the activations that 1F1B needs on its first rank.

namespace ppsim::schedules::catalogue {
namespace {

constexpr std::string_view kName = "zb-h1";

Expected<Schedule> generate(const ScheduleParameters& parameters) {
  const int p = parameters.ranks;
  PPSIM_ASSIGN_OR_RETURN(auto pipeline, make_chain(p, p, parameters.microbatches));
  ScheduleBuilder builder{std::string(kName), std::move(pipeline)};
  add_rows(parameters, [&](int r) {
    add_row(builder, {.stage = StageId(r), .warmup = p - r, .weight_delay = r}, parameters.microbatches);
  });
  return std::move(builder).build();
}

Nanoseconds time_of(const ScheduleParameters& parameters, const StageCosts& costs) {
  const Nanoseconds p = parameters.ranks;
  const Nanoseconds m = parameters.microbatches;
  const Nanoseconds w = costs.backward_weight;
  return m * (costs.forward + costs.backward_input + w) +
         (p - 1) * (costs.forward + costs.backward_input - w);
}

bool applies(const ScheduleParameters& parameters, const StageCosts& costs) {
  return parameters.microbatches >= parameters.ranks && (costs.transfer == 0 || parameters.ranks == 1) &&
         costs.forward >= costs.backward_weight;
}

std::optional<Nanoseconds> makespan(const ScheduleParameters& parameters, const StageCosts& costs) {
  if (!applies(parameters, costs) || costs.backward_input < costs.backward_weight) return std::nullopt;
  return time_of(parameters, costs);
}

std::optional<Nanoseconds> span(const ScheduleParameters& parameters, const StageCosts& costs) {
  if (!applies(parameters, costs)) return std::nullopt;
  return time_of(parameters, costs);
}

std::optional<int> peak(const ScheduleParameters& parameters, RankId) {
  return std::min(parameters.ranks, parameters.microbatches);
}

}  // namespace

ScheduleInfo zb_h1() {
  return {
      .name = kName,
      .summary = "1F1B with split backward, a third of its bubble at equal costs",
      .paper = "Qi et al., Zero bubble pipeline parallelism, ICLR 2024, arXiv 2401.10241",
      .placement = "stage s on rank s",
      .constraints = "any ranks and microbatches",
      .splits_backward = true,
      .settings = {},
      .generate = generate,
      .repetitions = repeats_after_two_rounds,
      .forms = {.makespan = makespan,
                .span = span,
                .peak_live_activations = peak,
                .bubble = "(p-1)(F+I-W) for m >= p, F >= W, I >= W",
                .peak = "min(p, m)"},
  };
}

}  // namespace ppsim::schedules::catalogue
