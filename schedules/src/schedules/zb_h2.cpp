#include <algorithm>

#include "families/catalogue.hpp"
#include "families/orders/warmup_order.hpp"
#include "families/rank_rows.hpp"
#include "families/repetitions.hpp"

// ZB-H2: rank r runs 2(p-r) - 1 F before its first backward and its W 2r backwards late, so that each rank
// computes without a pause where F, I and W cost the same; it holds up to 2p - 1 activations. The ranks end
// one after another: the form is that of the span, which counts as the step's time when the optimizer does
// not wait for all ranks. For m <= p a step of (m + p - 1)(F + I) + W is ZB-H1's alone: here the early F of
// the upper ranks come before backwards that the ranks below wait for (p=8, m=7, unit costs: 32 against 29).

namespace ppsim::schedules::catalogue {
namespace {

constexpr std::string_view kName = "zb-h2";

Expected<Schedule> generate(const ScheduleParameters& parameters) {
  const int p = parameters.ranks;
  PPSIM_ASSIGN_OR_RETURN(auto pipeline, make_chain(p, p, parameters.microbatches));
  ScheduleBuilder builder{std::string(kName), std::move(pipeline)};
  add_rows(parameters, [&](int r) {
    add_row(builder, {.stage = StageId(r), .warmup = 2 * (p - r) - 1, .weight_delay = 2 * r},
            parameters.microbatches);
  });
  return std::move(builder).build();
}

std::optional<Nanoseconds> span(const ScheduleParameters& parameters, const StageCosts& costs) {
  const Nanoseconds p = parameters.ranks;
  const Nanoseconds m = parameters.microbatches;
  const Nanoseconds w = costs.backward_weight;
  const Nanoseconds both = costs.forward + costs.backward_input;
  const bool fits = costs.forward >= w && costs.backward_input >= w && both >= 2 * w;
  if (m < 2 * p - 1 || (costs.transfer > 0 && p > 1) || !fits) return std::nullopt;
  return m * (both + w) + (p - 1) * (both - 2 * w);
}

std::optional<int> peak(const ScheduleParameters& parameters, RankId) {
  return std::min(2 * parameters.ranks - 1, parameters.microbatches);
}

}  // namespace

ScheduleInfo zb_h2() {
  return {
      .name = kName,
      .summary = "zero bubble at equal costs for twice the activations of 1F1B",
      .paper = "Qi et al., Zero bubble pipeline parallelism, ICLR 2024, arXiv 2401.10241",
      .placement = "stage s on rank s",
      .constraints = "any ranks and microbatches; without bubble from 2p - 1 microbatches on",
      .splits_backward = true,
      .settings = {},
      .generate = generate,
      .repetitions = repeats_after_two_rounds,
      .forms = {.span = span,
                .peak_live_activations = peak,
                .bubble = "(p-1)(F+I-2W) for m >= 2p-1, F >= W, I >= W",
                .peak = "min(2p-1, m)"},
  };
}

}  // namespace ppsim::schedules::catalogue
