
#include "families/catalogue.hpp"
#include "families/orders/folded_pipes.hpp"
#include "families/repetitions.hpp"
#include "families/settings.hpp"

// Hanayo: one copy of the model in W waves, each down the ranks and back up, so in 2W chunks per rank; a
// microbatch stays on a rank where a wave turns. p microbatches fill the wave, more follow in further units
// of p (folded_pipes.cpp); this is Chimera with its second direction folded onto the first, without its
// second copy of the weights.
//
// Bubble: 2(p-1)(F + K(B-F)) for K full units and F <= B, in times of a chunk. At B = 2F and m = p it is
// 4(p-1)F of 6pWF computed: (2p-2)/(3pW + 2p-2) of the makespan. The paper's ratio, (2P-2)/(3PW + P-1), is
// the same bubble over a time that is shorter than computation and bubble together.

namespace ppsim::schedules::catalogue {
namespace {

constexpr std::string_view kName = "hanayo";
constexpr int kDefaultChunks = 2;
constexpr int kMaxChunks = 1 << 8;

FoldedPipes pipes_of(const ScheduleParameters& parameters) {
  return {.ranks = parameters.ranks,
          .chunks = parameters.chunks.value_or(kDefaultChunks),
          .directions = 1,
          .microbatches = parameters.microbatches};
}

std::string refusal(const ScheduleParameters& parameters) {
  return refused_odd("chunks", parameters.chunks.value_or(kDefaultChunks));
}

Expected<Schedule> generate(const ScheduleParameters& parameters) {
  return generate_folded(kName, pipes_of(parameters));
}

std::optional<Nanoseconds> makespan(const ScheduleParameters& parameters, const StageCosts& costs) {
  return folded_makespan(pipes_of(parameters), costs);
}

std::optional<int> peak(const ScheduleParameters& parameters, RankId rank) {
  return folded_peak(pipes_of(parameters), rank);
}

}  // namespace

ScheduleInfo hanayo() {
  return {
      .name = kName,
      .summary = "microbatches in waves down the ranks and back up",
      .paper = "Liu et al., Hanayo, SC 2023, arXiv 2308.15762",
      .placement = "chunk after chunk down the ranks and back up; a wave is two chunks",
      .constraints = "any ranks and microbatches; an even number of chunks",
      .default_chunks = kDefaultChunks,
      .min_chunks = 2,
      .max_chunks = kMaxChunks,
      .settings = {},
      .refusal = refusal,
      .generate = generate,
      .repetitions = repeats_by_group,
      .forms = {.makespan = makespan,
                .peak_live_activations = peak,
                .bubble = "2(p-1)(F + m/p (B-F)) for p | m, B >= F",
                .peak = "v min(m, p)"},
  };
}

}  // namespace ppsim::schedules::catalogue
