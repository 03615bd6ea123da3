#include <algorithm>
#include <array>

#include "catalogue.hpp"
#include "stage_graphs.hpp"
#include "warmup_order.hpp"

// 1F1B, also PipeDream-flush and DAPPLE: rank r runs p - r F, then B and F in turn, so that it never holds
// more than p - r activations.

namespace ppsim::catalogue {
namespace {

constexpr std::string_view kName = "1f1b";
constexpr std::array kSettings = {kGraphSetting, kEncoderSetting};

std::string refusal(const ScheduleParameters& parameters) {
  return refused_graph(parameters, parameters.ranks);
}

Expected<Schedule> generate(const ScheduleParameters& parameters) {
  const int p = parameters.ranks;
  auto pipeline = make_looped(parameters, 1);
  if (!pipeline) return tl::unexpected(pipeline.error());
  ScheduleBuilder builder{std::string(kName), *std::move(pipeline)};
  for (int r = 0; r < p; ++r) {
    add_row(builder, {.stage = StageId(r), .warmup = p - r, .weight_delay = {}}, parameters.microbatches);
  }
  return builder.build();
}

/// How many times a transfer is waited for, for m >= p >= 2: a steady state pays nearly two per microbatch.
Nanoseconds exposed_transfers(Nanoseconds p, Nanoseconds m) {
  const Nanoseconds rounds = (m - p) / p;
  const Nanoseconds rest = (m - p) % p;
  const Nanoseconds of_rest = rest < 2 ? 2 * rest : 2 * (rest - 1);
  return 4 * p - 6 + 2 * (p - 1) * rounds + of_rest;
}

std::optional<Nanoseconds> makespan(const ScheduleParameters& parameters, const StageCosts& costs) {
  const Nanoseconds p = parameters.ranks;
  const Nanoseconds m = parameters.microbatches;
  const Nanoseconds c = costs.transfer;
  const Nanoseconds computed = (m + p - 1) * (costs.forward + costs.backward);
  if (c == 0 || p == 1) return computed;
  if (!is_chain(parameters) || m < p || c >= std::min(costs.forward, costs.backward)) return std::nullopt;
  return computed + c * exposed_transfers(p, m);
}

std::optional<int> peak(const ScheduleParameters& parameters, RankId rank) {
  return std::min(parameters.ranks - rank.value(), parameters.microbatches);
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
      .forms = {.makespan = makespan,
                .peak_live_activations = peak,
                .bubble = "(p-1)(F+B)",
                .peak = "min(p, m)"},
  };
}

}  // namespace ppsim::catalogue
