#include <array>

#include "families/catalogue.hpp"
#include "families/repetitions.hpp"
#include "families/settings.hpp"
#include "families/stage_graphs.hpp"

// GPipe, also called fill-drain: every rank runs all its F, then all its B. The paper lets the backward order
// run either way; `same` keeps the microbatches in the order of accumulation, `reversed` is the one of
// torchgpipe.

namespace ppsim::schedules::catalogue {
namespace {

constexpr std::string_view kName = "gpipe";

constexpr std::array<std::string_view, 2> kBackwardOrders = {"same", "reversed"};
constexpr std::array kSettings = {
    SettingInfo{"backward", "order of the microbatches in the backward: same or reversed", "same",
                kBackwardOrders},
    kGraphSetting,
    kEncoderSetting,
};

std::string refusal(const ScheduleParameters& parameters) {
  return refused_word(parameters, "backward", kBackwardOrders) + refused_graph(parameters, parameters.ranks);
}

Expected<Schedule> generate(const ScheduleParameters& parameters) {
  const bool reversed = setting(parameters, "backward") == "reversed";
  PPSIM_ASSIGN_OR_RETURN(auto pipeline, make_looped(parameters, 1));
  ScheduleBuilder builder{std::string(kName), std::move(pipeline)};
  const int m = parameters.microbatches;
  for (int s = 0; s < parameters.ranks; ++s) {
    for (int i = 0; i < m; ++i) builder.add(OpKind::forward, StageId(s), MicrobatchId(i));
    for (int i = 0; i < m; ++i) {
      builder.add(OpKind::backward, StageId(s), MicrobatchId(reversed ? m - 1 - i : i));
    }
  }
  return std::move(builder).build();
}

std::optional<Nanoseconds> makespan(const ScheduleParameters& parameters, const StageCosts& costs) {
  const Nanoseconds p = parameters.ranks;
  const Nanoseconds m = parameters.microbatches;
  if (costs.transfer > 0 && !is_chain(parameters)) return std::nullopt;
  return (m + p - 1) * (costs.forward + costs.backward) + 2 * (p - 1) * costs.transfer;
}

std::optional<int> peak(const ScheduleParameters& parameters, RankId) { return parameters.microbatches; }

}  // namespace

ScheduleInfo gpipe() {
  return {
      .name = kName,
      .summary = "all forwards, then all backwards",
      .paper = "Huang et al., GPipe, NeurIPS 2019, arXiv 1811.06965",
      .placement = "stage s on rank s",
      .constraints = "any ranks and microbatches",
      .settings = kSettings,
      .refusal = refusal,
      .generate = generate,
      .repetitions = repeats_from_the_first,
      .forms = {.makespan = makespan,
                .peak_live_activations = peak,
                .bubble = "(p-1)(F+B) + 2(p-1)c",
                .peak = "m"},
  };
}

}  // namespace ppsim::schedules::catalogue
