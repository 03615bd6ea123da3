
#include "families/catalogue.hpp"
#include "families/orders/folded_pipes.hpp"
#include "families/repetitions.hpp"
#include "families/settings.hpp"

// BitPipe: Chimera's two directions, each of them a V of two chunks per rank, which makes the stages half as
// large and turns the pipes without a transfer. p microbatches are a unit, half of them each way, as the
// authors' repository draws it (github.com/wuhouming/BitPipe, BitPipe-v.svg); units follow each other
// directly (folded_pipes.cpp). The paper takes multiples of p; of other even numbers the last unit leaves
// places empty. The authors' drawing of further units (scale-moreb.svg, four ranks, B = 2F) puts two F of the
// next unit where a B leaves a gap, here there is one; theirs takes one F less per further unit.
//
// Bubble: (p-2)(F + K(B-F)) for K full units and F <= B, in times of a chunk: at B = 2F and m = p the ratio
// (p-2)/(3m + p-2), that of Chimera with stages half as large.

namespace ppsim::schedules::catalogue {
namespace {

constexpr std::string_view kName = "bitpipe";
constexpr int kChunks = 4;

FoldedPipes pipes_of(const ScheduleParameters& parameters) {
  return {.ranks = parameters.ranks,
          .chunks = kChunks / 2,
          .directions = 2,
          .microbatches = parameters.microbatches};
}

std::string refusal(const ScheduleParameters& parameters) {
  return refused_odd("ranks", parameters.ranks) + refused_odd("microbatches", parameters.microbatches);
}

Expected<Schedule> generate(const ScheduleParameters& parameters) {
  return generate_folded(kName, pipes_of(parameters));
}

std::optional<Nanoseconds> makespan(const ScheduleParameters& parameters, const StageCosts& costs) {
  return folded_makespan(pipes_of(parameters), costs);
}

std::optional<Nanoseconds> busy(const ScheduleParameters& parameters, const StageCosts& costs) {
  return folded_work(pipes_of(parameters), costs);
}

std::optional<int> peak(const ScheduleParameters& parameters, RankId rank) {
  return folded_peak(pipes_of(parameters), rank);
}

}  // namespace

ScheduleInfo bitpipe() {
  return {
      .name = kName,
      .summary = "two V-shaped pipes in opposite directions over two copies of the model",
      .paper = "Wu et al., BitPipe, arXiv 2410.19367",
      .placement = "the stages of the first copy down the ranks and back, those of the second mirrored",
      .constraints = "even ranks and microbatches",
      .default_chunks = kChunks,
      .min_chunks = kChunks,
      .max_chunks = kChunks,
      .settings = {},
      .refusal = refusal,
      .generate = generate,
      .repetitions = repeats_by_group,
      .forms = {.makespan = makespan,
                .peak_live_activations = peak,
                .busy = busy,
                .bubble = "(p-2)(F + m/p (B-F)) for p | m, B >= F",
                .peak = "2min(m, p)"},
  };
}

}  // namespace ppsim::schedules::catalogue
