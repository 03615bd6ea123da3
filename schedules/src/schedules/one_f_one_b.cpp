#include <array>

#include "families/catalogue.hpp"
#include "families/orders/warmup_order.hpp"
#include "families/rank_rows.hpp"
#include "families/repetitions.hpp"
#include "families/stage_graphs.hpp"

// 1F1B, also PipeDream-flush and DAPPLE: rank r runs p - r F, then B and F in turn, so that it never holds
// more than p - r activations.

namespace ppsim::schedules::catalogue {
namespace {

constexpr std::string_view kName = "1f1b";
constexpr std::array kSettings = {kGraphSetting, kEncoderSetting};

std::string refusal(const ScheduleParameters& parameters) {
  return refused_graph(parameters, parameters.ranks);
}

Expected<Schedule> generate(const ScheduleParameters& parameters) {
  const int p = parameters.ranks;
  PPSIM_ASSIGN_OR_RETURN(auto pipeline, make_looped(parameters, 1));
  ScheduleBuilder builder{std::string(kName), std::move(pipeline)};
  add_rows(parameters, [&](int r) {
    add_row(builder, {.stage = StageId(r), .warmup = p - r, .weight_delay = {}}, parameters.microbatches);
  });
  return std::move(builder).build();
}

std::optional<Nanoseconds> makespan(const ScheduleParameters& parameters, const StageCosts& costs) {
  if (costs.transfer > 0 && parameters.ranks > 1 && !is_chain(parameters)) return std::nullopt;
  return one_f_one_b_makespan(parameters, costs);
}

}  // namespace

ScheduleInfo one_f_one_b() {
  return {
      .name = kName,
      .summary = "one forward and one backward in turn after a warm-up",
      .paper =
          "Narayanan et al., Memory-efficient pipeline-parallel DNN training, ICML 2021, arXiv 2006.09503; "
          "Fan et "
          "al., DAPPLE, PPoPP 2021, arXiv 2007.01045",
      .placement = "stage s on rank s",
      .constraints = "any ranks and microbatches",
      .settings = kSettings,
      .refusal = refusal,
      .generate = generate,
      .repetitions = repeats_from_the_first,
      .forms = {.makespan = makespan,
                .peak_live_activations = one_f_one_b_peak,
                .bubble = "(p-1)(F+B)",
                .peak = "min(p, m)"},
  };
}

}  // namespace ppsim::schedules::catalogue
