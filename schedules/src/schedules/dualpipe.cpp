#include <algorithm>

#include "families/catalogue.hpp"
#include "families/orders/dualpipe_rows.hpp"
#include "families/placements.hpp"
#include "families/repetitions.hpp"
#include "families/settings.hpp"

// DualPipe: two directions over two copies of the model, as in Chimera, with the F of one direction run as
// one with a B of the other (OVERLAP_F_B) and W put off where a pipe fills or drains. The order is that of
// deepseek-ai/DualPipe, dualpipe.py. Its microbatches count those of both directions.
//
// Bubble: the paper's (p/2-1)(F&B + B - 3W), over what the middle ranks compute, which overlap most pairs,
// holds exactly where F, I and W take alike, B is I and W, and F&B takes no less than B. Otherwise it does
// not: for F, B, W, F&B = 10, 22, 8, 32 and I = 14 the bubble is 26 in place of 30 on four ranks, 80 in place
// of 90 on eight; for 10, 20, 8, 30 and I = 12 it is 24 in place of 26, and 72 in place of 78.

namespace ppsim::schedules::catalogue {
namespace {

constexpr std::string_view kName = "dualpipe";

std::string refusal(const ScheduleParameters& parameters) {
  std::string refused =
      refused_odd("ranks", parameters.ranks) + refused_odd("microbatches", parameters.microbatches);
  return refused + refused_below("microbatches", parameters.microbatches, 2 * parameters.ranks);
}

DualPipeRow row_of(const ScheduleParameters& parameters, int rank) {
  const int p = parameters.ranks;
  const int per_direction = parameters.microbatches / 2;
  const DualPipeRow::Phase down{StageId(rank), 0};
  const DualPipeRow::Phase up{StageId(2 * p - 1 - rank), per_direction};
  DualPipeRow row{.rank = RankId(rank), .phases = {down, up}, .reach = p / 2, .microbatches = per_direction};
  if (rank >= p / 2) std::swap(row.phases[0], row.phases[1]);
  row.away = std::min(rank, p - 1 - rank);
  return row;
}

Expected<Schedule> generate(const ScheduleParameters& parameters) {
  const int p = parameters.ranks;
  PPSIM_ASSIGN_OR_RETURN(auto pipeline,
                         make_bidirectional(p, parameters.microbatches, folded_placement(p, 1)));
  ScheduleBuilder builder{std::string(kName), std::move(pipeline)};
  for (int r = 0; r < p; ++r) add_row(builder, row_of(parameters, r));
  return std::move(builder).build();
}

DualPipeForm form_of(const ScheduleParameters& parameters) {
  return {.reach = parameters.ranks / 2, .microbatches = parameters.microbatches / 2};
}

std::optional<Nanoseconds> makespan(const ScheduleParameters& parameters, const StageCosts& costs) {
  return form_of(parameters).makespan(costs);
}

std::optional<Nanoseconds> busy(const ScheduleParameters& parameters, const StageCosts& costs) {
  return form_of(parameters).busy(costs);
}

std::optional<int> peak(const ScheduleParameters& parameters, RankId) { return form_of(parameters).peak(); }

}  // namespace

ScheduleInfo dualpipe() {
  return {
      .name = kName,
      .summary = "two directions over two copies of the model, F of one beside B of the other",
      .paper = "DeepSeek-AI, DeepSeek-V3 technical report, arXiv 2412.19437",
      .placement = "stage s of the first copy on rank s, of the second on rank p - 1 - s",
      .constraints = "even ranks and microbatches, at least 2p microbatches",
      .default_chunks = 2,
      .min_chunks = 2,
      .max_chunks = 2,
      .splits_backward = true,
      .settings = {},
      .refusal = refusal,
      .generate = generate,
      .repetitions = repeats_by_group,
      .forms = {.makespan = makespan,
                .peak_live_activations = peak,
                .busy = busy,
                .bubble = "(p/2-1)(FB+B-3W) for F = I, I = W",
                .peak = "p+1"},
  };
}

}  // namespace ppsim::schedules::catalogue
