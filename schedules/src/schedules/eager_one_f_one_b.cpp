#include <algorithm>
#include <array>

#include "families/catalogue.hpp"
#include "families/orders/warmup_order.hpp"
#include "families/rank_rows.hpp"
#include "families/repetitions.hpp"
#include "families/stage_graphs.hpp"

// Eager 1F1B: 1F1B with so many more F before the first B, 2(p-r) - 1 on rank r, that a transfer each way has
// the time of an F and a B to arrive. 1F1B waits nearly two transfers for every microbatch, this order 2(p-1)
// in all.

namespace ppsim::schedules::catalogue {
namespace {

constexpr std::string_view kName = "eager-1f1b";
constexpr std::array kSettings = {kGraphSetting, kEncoderSetting};

int warmup(const ScheduleParameters& parameters, int rank) { return 2 * (parameters.ranks - rank) - 1; }

std::string refusal(const ScheduleParameters& parameters) {
  return refused_graph(parameters, parameters.ranks);
}

Expected<Schedule> generate(const ScheduleParameters& parameters) {
  PPSIM_ASSIGN_OR_RETURN(auto pipeline, make_looped(parameters, 1));
  ScheduleBuilder builder{std::string(kName), std::move(pipeline)};
  add_rows(parameters, [&](int r) {
    add_row(builder, {.stage = StageId(r), .warmup = warmup(parameters, r), .weight_delay = {}},
            parameters.microbatches);
  });
  return std::move(builder).build();
}

/// The way to the next rank and back, F + B + 2c, must fit in the 2(F + B) that the order has for it. With at
/// most three microbatches no B waits for a place between two F: the order is then that of GPipe.
bool hides_transfers(const ScheduleParameters& parameters, const StageCosts& costs) {
  if (costs.transfer == 0 || parameters.ranks == 1) return true;
  return is_chain(parameters) &&
         (parameters.microbatches <= 3 || 2 * costs.transfer <= costs.forward + costs.backward);
}

std::optional<Nanoseconds> makespan(const ScheduleParameters& parameters, const StageCosts& costs) {
  if (!hides_transfers(parameters, costs)) return std::nullopt;
  const Nanoseconds p = parameters.ranks;
  const Nanoseconds m = parameters.microbatches;
  return (m + p - 1) * (costs.forward + costs.backward) + 2 * (p - 1) * costs.transfer;
}

std::optional<int> peak(const ScheduleParameters& parameters, RankId rank) {
  return std::min(warmup(parameters, rank.value()), parameters.microbatches);
}

}  // namespace

ScheduleInfo eager_one_f_one_b() {
  return {
      .name = kName,
      .summary = "1F1B with a longer warm-up, whose transfers overlap with computation",
      .paper =
          "Zhuang et al., On optimizing the communication of model parallelism, MLSys 2023, arXiv "
          "2211.05322",
      .placement = "stage s on rank s",
      .constraints = "any ranks and microbatches",
      .settings = kSettings,
      .refusal = refusal,
      .generate = generate,
      .repetitions = repeats_after_two_rounds,
      .forms = {.makespan = makespan,
                .peak_live_activations = peak,
                .bubble = "(p-1)(F+B) + 2(p-1)c",
                .peak = "min(2p-1, m)"},
  };
}

}  // namespace ppsim::schedules::catalogue
