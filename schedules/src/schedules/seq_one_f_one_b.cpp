#include <algorithm>

#include "families/catalogue.hpp"
#include "families/orders/warmup_order.hpp"
#include "families/rank_rows.hpp"
#include "families/repetitions.hpp"
#include "families/stage_graphs.hpp"

// Seq1F1B: 1F1B over k slices of each microbatch's sequence. F goes through the slices from the first to the
// last, which attend to those before them; B goes from the last to the first. Rank r runs p - r - 1 + k
// slices before its first B, so that the last rank has a whole microbatch.

namespace ppsim::schedules::catalogue {
namespace {

constexpr std::string_view kName = "seq-1f1b";

int warmup(const ScheduleParameters& parameters, int rank) {
  return parameters.ranks - rank - 1 + parameters.slices;
}

Expected<Schedule> generate(const ScheduleParameters& parameters) {
  PPSIM_ASSIGN_OR_RETURN(auto pipeline, make_looped(parameters, 1));
  ScheduleBuilder builder{std::string(kName), std::move(pipeline)};
  add_rows(parameters, [&](int r) {
    add_row(builder,
            {.stage = StageId(r),
             .warmup = warmup(parameters, r),
             .weight_delay = {},
             .slices = parameters.slices},
            parameters.microbatches);
  });
  return std::move(builder).build();
}

/// For slices that cost the same.
std::optional<Nanoseconds> makespan(const ScheduleParameters& parameters, const StageCosts& costs) {
  if (costs.transfer > 0 && parameters.ranks > 1) return std::nullopt;
  const Nanoseconds slices = Nanoseconds{parameters.microbatches} * parameters.slices;
  return (slices + parameters.ranks - 1) * (costs.forward + costs.backward);
}

std::optional<int> peak(const ScheduleParameters& parameters, RankId rank) {
  return std::min(warmup(parameters, rank.value()), parameters.microbatches * parameters.slices);
}

}  // namespace

ScheduleInfo seq_one_f_one_b() {
  return {
      .name = kName,
      .summary = "1F1B over slices of the sequence",
      .paper =
          "Sun et al., Seq1F1B: Efficient sequence-level pipeline parallelism for large language model "
          "training, NAACL 2025, arXiv 2406.03488",
      .placement = "stage s on rank s",
      .constraints = "any ranks, microbatches and slices",
      .has_slices = true,
      .settings = {},
      .generate = generate,
      .repetitions = repeats_from_the_first,
      .forms = {.makespan = makespan,
                .peak_live_activations = peak,
                .bubble = "(p-1)(F+B)",
                .peak = "min(p+k-1, mk)"},
  };
}

}  // namespace ppsim::schedules::catalogue
