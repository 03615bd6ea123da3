#include <array>

#include "families/catalogue.hpp"
#include "families/orders/dualpipe_rows.hpp"
#include "families/placements.hpp"
#include "families/repetitions.hpp"
#include "families/settings.hpp"

// DualPipeV, also "cut in half": DualPipe with its second half of the ranks folded onto the first, so that
// one copy of the model runs down the ranks and back up. The order is that of deepseek-ai/DualPipe,
// dualpipev.py, and of PyTorch's ScheduleDualPipeV.
//
// Bubble: that of DualPipe on twice the ranks, (p-1)(F&B + B - 3W), under the same conditions. With
// first=whole the first stage has B everywhere, for frameworks that cannot split its backward.

namespace ppsim::schedules::catalogue {
namespace {

constexpr std::string_view kName = "dualpipe-v";

constexpr std::array<std::string_view, 2> kVariants = {"deepseek", "jaxpp"};
constexpr std::array kSettings = {
    SettingInfo{"variant",
                "whose order: deepseek, or jaxpp, where the first stage's backward is whole and every W of "
                "the end comes last",
                "deepseek", kVariants},
};

bool is_jaxpp(const ScheduleParameters& parameters) { return setting(parameters, "variant") == "jaxpp"; }

std::string refusal(const ScheduleParameters& parameters) {
  return refused_below("microbatches", parameters.microbatches, 2 * parameters.ranks) +
         refused_word(parameters, "variant", kVariants);
}

Expected<Schedule> generate(const ScheduleParameters& parameters) {
  const int p = parameters.ranks;
  PPSIM_ASSIGN_OR_RETURN(auto pipeline,
                         make_chain(p, 2 * p, parameters.microbatches, folded_placement(p, 2)));
  ScheduleBuilder builder{std::string(kName), std::move(pipeline)};
  for (int r = 0; r < p; ++r) {
    add_row(builder, {.rank = RankId(r),
                      .phases = {{{.stage = StageId(r), .whole = r == 0 && is_jaxpp(parameters)},
                                  {.stage = StageId(2 * p - 1 - r)}}},
                      .reach = p,
                      .away = r,
                      .microbatches = parameters.microbatches,
                      .as_jaxpp = is_jaxpp(parameters)});
  }
  return std::move(builder).build();
}

DualPipeForm form_of(const ScheduleParameters& parameters) {
  return {.reach = parameters.ranks, .microbatches = parameters.microbatches};
}

std::optional<Nanoseconds> makespan(const ScheduleParameters& parameters, const StageCosts& costs) {
  if (is_jaxpp(parameters)) return std::nullopt;
  return form_of(parameters).makespan(costs);
}

std::optional<Nanoseconds> busy(const ScheduleParameters& parameters, const StageCosts& costs) {
  return form_of(parameters).busy(costs);
}

std::optional<int> peak(const ScheduleParameters& parameters, RankId) { return form_of(parameters).peak(); }

}  // namespace

ScheduleInfo dualpipe_v() {
  return {
      .name = kName,
      .summary = "DualPipe folded onto half the ranks, with one copy of the model",
      .paper =
          "DeepSeek-AI, DualPipe, github.com/deepseek-ai/DualPipe; DeepSeek-V3 technical report, arXiv "
          "2412.19437",
      .placement = "down the ranks and back up: stages r and 2p - 1 - r on rank r",
      .constraints = "any ranks, at least 2p microbatches",
      .default_chunks = 2,
      .min_chunks = 2,
      .max_chunks = 2,
      .splits_backward = true,
      .settings = kSettings,
      .refusal = refusal,
      .generate = generate,
      .repetitions = repeats_once_filled,
      .forms = {.makespan = makespan,
                .peak_live_activations = peak,
                .busy = busy,
                .bubble = "(p-1)(FB+B-3W) for F = I, I = W",
                .peak = "2p+1"},
  };
}

}  // namespace ppsim::schedules::catalogue
