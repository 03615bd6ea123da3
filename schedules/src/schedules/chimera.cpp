#include <algorithm>
#include <array>

#include "families/catalogue.hpp"
#include "families/orders/folded_pipes.hpp"
#include "families/repetitions.hpp"
#include "families/settings.hpp"

// Chimera: a pipe down the ranks and one up, over two copies of the model, so that each fills the other's
// gaps. D ranks take D microbatches as one basic unit, half of them each way (folded_pipes.cpp). More
// microbatches are units one after another, which the paper does in three ways:
//
// direct            as they are;
// forward-doubling  units of 2D microbatches whose F run two at a time, so that F and B take alike where B
//                   takes twice an F; a rest of up to D microbatches is a unit as in direct. Twice the
//                   activations. A doubled F is two F of successive microbatches directly after each
//                   other, each of which sends its output when it is done;
// backward-halving  the same order: a microbatch here is what one B takes, half of what one F takes, so that
//                   the two F that follow each other are the halves of the paper's microbatch.
//
// Any even number of microbatches: of fewer than D, or of a last unit that is not full, the places stay
// empty. The authors' generator (chimera_pipeline_rank.py) gives the same order for D and 2D microbatches and
// loses microbatches from 4D on where D >= 6.
//
// Bubble of direct: (D-2)(F + K(B-F)) for K full units and F <= B. The paper's ratio (table 2) is that of
// F = B for every K, but for B = 2F that of one unit only: (D-2)/(3N/2 + D-2), while 8 ranks and 16
// microbatches wait 18 of 66 units, not a fifth. Forward doubling waits less than the paper's (D-2)B, as the
// next rank does not wait for the second F of a pair: (D/2-1)(F+B) where F <= B <= 2F.

namespace ppsim::schedules::catalogue {
namespace {

constexpr std::string_view kName = "chimera";

constexpr std::array<std::string_view, 3> kConcatenations = {"direct", "forward-doubling",
                                                             "backward-halving"};
constexpr std::array kSettings = {
    SettingInfo{"concatenation",
                "how units of p microbatches follow each other: direct, forward-doubling or backward-halving "
                "(whose microbatches are the halves)",
                "direct", kConcatenations},
};

FoldedPipes pipes_of(const ScheduleParameters& parameters) {
  const std::optional<std::string> concatenation = setting(parameters, "concatenation");
  return {.ranks = parameters.ranks,
          .chunks = 1,
          .directions = 2,
          .microbatches = parameters.microbatches,
          .doubled = concatenation && *concatenation != "direct"};
}

std::string refusal(const ScheduleParameters& parameters) {
  return refused_odd("ranks", parameters.ranks) + refused_odd("microbatches", parameters.microbatches) +
         refused_word(parameters, "concatenation", kConcatenations);
}

Expected<Schedule> generate(const ScheduleParameters& parameters) {
  return generate_folded(kName, pipes_of(parameters));
}

/// Where all units are doubled and full. Longer B than 2F, and F than B, are waited for twice a unit.
std::optional<Nanoseconds> doubled_makespan(const FoldedPipes& pipes, const StageCosts& costs) {
  if (per_direction(pipes) % (2 * reach(pipes)) != 0 || costs.transfer > 0) return std::nullopt;
  const Nanoseconds units = per_direction(pipes) / (2 * reach(pipes));
  const Nanoseconds f = costs.forward;
  const Nanoseconds b = costs.backward;
  const Nanoseconds of_long_backward =
      std::max(f + b, 2 * (b - f)) + 2 * (units - 1) * std::max<Nanoseconds>(0, b - 2 * f);
  const Nanoseconds per_rank = b < f ? 2 * b + 2 * units * (f - b) : of_long_backward;
  return folded_work(pipes, costs) + (reach(pipes) - 1) * per_rank;
}

std::optional<Nanoseconds> makespan(const ScheduleParameters& parameters, const StageCosts& costs) {
  const FoldedPipes pipes = pipes_of(parameters);
  return has_doubled_units(pipes) ? doubled_makespan(pipes, costs) : folded_makespan(pipes, costs);
}

std::optional<Nanoseconds> busy(const ScheduleParameters& parameters, const StageCosts& costs) {
  return folded_work(pipes_of(parameters), costs);
}

std::optional<int> peak(const ScheduleParameters& parameters, RankId rank) {
  const FoldedPipes pipes = pipes_of(parameters);
  if (!has_doubled_units(pipes)) return folded_peak(pipes, rank);
  const int unit = std::min(2 * reach(pipes), per_direction(pipes));
  const int away = std::min(rank.value(), pipes.ranks - 1 - rank.value());
  return std::min(2 * unit, unit + unit / 2 + 1 + away);
}

}  // namespace

ScheduleInfo chimera() {
  return {
      .name = kName,
      .summary = "two pipes in opposite directions over two copies of the model",
      .paper = "Li and Hoefler, Chimera, SC 2021, arXiv 2107.06925",
      .placement = "stage s of the first copy on rank s, of the second on rank p - 1 - s",
      .constraints = "even ranks and microbatches",
      .default_chunks = 2,
      .min_chunks = 2,
      .max_chunks = 2,
      .settings = kSettings,
      .refusal = refusal,
      .generate = generate,
      .repetitions = repeats_by_group,
      .forms = {.makespan = makespan,
                .peak_live_activations = peak,
                .busy = busy,
                .bubble = "(p-2)(F + m/p (B-F)) for p | m, B >= F",
                .peak = "min(m, p)"},
  };
}

}  // namespace ppsim::schedules::catalogue
