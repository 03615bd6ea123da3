#include <algorithm>
#include <array>

#include "families/catalogue.hpp"
#include "families/orders/warmup_order.hpp"
#include "families/repetitions.hpp"
#include "families/settings.hpp"

// PipeDream and PipeDream-2BW: 1F1B without a flush. A step is m microbatches out of an endless stream, so
// the weights are updated while later microbatches are in flight, and a microbatch keeps to the version with
// which its forward ran (weight stashing).
//
// PipeDream updates a stage after every backward. Rank r runs F of microbatch m directly after B of m - (p -
// r), so the newest version there is m - (p - r) + 1: version[m] = m with a lag of p - r - 1, and p - r
// versions on rank r. The last rank has none to stash and updates in place.
//
// 2BW sums the gradients of macrobatches of at least p microbatches. Microbatches of macrobatch u read what
// macrobatch u - 2 made, W(u + 1) = W(u) - gradient of W(u - 1): two versions on every rank. A last
// macrobatch may be smaller.

namespace ppsim::schedules::catalogue {
namespace {

constexpr std::string_view kPipeDream = "pipedream";
constexpr std::string_view kTwoBuffers = "pipedream-2bw";

constexpr std::array<std::string_view, 3> kMacrobatches = {"8", "16", "24"};
constexpr std::array kSettings = {
    SettingInfo{"macrobatch", "microbatches per update, at least the ranks", "as many as ranks",
                kMacrobatches},
};

PipelineSpec chain_of(const ScheduleParameters& parameters) {
  PipelineSpec spec;
  spec.ranks = parameters.ranks;
  spec.stages = parameters.ranks;
  spec.microbatches = parameters.microbatches;
  return spec;
}

/// The order of 1F1B, and an OPT directly after the last B of every update.
Expected<Schedule> with_updates(std::string_view name, PipelineSpec spec) {
  PPSIM_ASSIGN_OR_RETURN(auto pipeline, Pipeline::make(std::move(spec)));
  ScheduleBuilder builder{std::string(name), pipeline};
  const int p = pipeline.ranks();
  const int m = pipeline.microbatches();
  for (int r = 0; r < p; ++r) {
    const auto add = [&](OpKind kind, int microbatch) {
      builder.add(kind, StageId(r), MicrobatchId(microbatch));
    };
    int forwards = 0;
    while (forwards < std::min(p - r, m)) add(OpKind::forward, forwards++);
    for (int k = 0; k < m; ++k) {
      add(OpKind::backward, k);
      const int update = pipeline.spec().update[MicrobatchId(k)];
      if (pipeline.microbatches_of_update(update).back() == MicrobatchId(k)) {
        builder.add(RankId(r), make_action(OpKind::optimizer, r, update));
      }
      if (forwards < m) add(OpKind::forward, forwards++);
    }
  }
  return std::move(builder).build();
}

Expected<Schedule> generate_pipedream(const ScheduleParameters& parameters) {
  PipelineSpec spec = chain_of(parameters);
  for (int k = 0; k < spec.microbatches; ++k) {
    spec.update.push_back(k);
    spec.version.push_back(k);
  }
  for (int r = 0; r < spec.ranks; ++r) spec.lag.push_back(std::min(spec.ranks - r - 1, spec.microbatches));
  return with_updates(kPipeDream, std::move(spec));
}

Expected<Schedule> generate_two_buffers(const ScheduleParameters& parameters) {
  const int macrobatch = count_setting(parameters, "macrobatch").value_or(parameters.ranks);
  PipelineSpec spec = chain_of(parameters);
  for (int k = 0; k < spec.microbatches; ++k) {
    spec.update.push_back(k / macrobatch);
    spec.version.push_back(std::max(0, k / macrobatch - 1));
  }
  return with_updates(kTwoBuffers, std::move(spec));
}

std::string refusal(const ScheduleParameters& parameters) {
  constexpr int kMax = 1 << 24;
  return refused_count(parameters, "macrobatch", {parameters.ranks, kMax});
}

}  // namespace

ScheduleInfo pipedream() {
  return {
      .name = kPipeDream,
      .summary = "1F1B without a flush, an update after every backward, stashed weights",
      .paper =
          "Narayanan et al., PipeDream: generalized pipeline parallelism for DNN training, SOSP 2019, arXiv "
          "1806.03377",
      .placement = "stage s on rank s",
      .constraints = "any ranks and microbatches",
      .settings = {},
      .generate = generate_pipedream,
      .repetitions = repeats_from_the_first,
      .forms = {.makespan = one_f_one_b_makespan,
                .peak_live_activations = one_f_one_b_peak,
                .bubble = "(p-1)(F+B)",
                .peak = "min(p, m)"},
  };
}

ScheduleInfo pipedream_2bw() {
  return {
      .name = kTwoBuffers,
      .summary = "1F1B without a flush, an update per macrobatch, two versions of the weights",
      .paper =
          "Narayanan et al., Memory-efficient pipeline-parallel DNN training, ICML 2021, arXiv 2006.09503",
      .placement = "stage s on rank s",
      .constraints = "any ranks and microbatches; macrobatches of at least as many microbatches as ranks",
      .settings = kSettings,
      .refusal = refusal,
      .generate = generate_two_buffers,
      .repetitions = repeats_by_group,
      .forms = {.makespan = one_f_one_b_makespan,
                .peak_live_activations = one_f_one_b_peak,
                .bubble = "(p-1)(F+B)",
                .peak = "min(p, m)"},
  };
}

}  // namespace ppsim::schedules::catalogue
