#include <algorithm>

#include "catalogue.hpp"
#include "chunk_turns.hpp"

// Interleaved zero bubble: the interleaved 1F1B with the backward split, half the F before the steady state,
// and W r backwards late on rank r, as ZB-H1 is to 1F1B. The order is that of PyTorch's
// ScheduleInterleavedZeroBubble; microbatches that PyTorch refuses go in groups that differ by one, as in the
// interleaved 1F1B.
//
// Bubble: (p-1)(F+I-W) in times of a chunk, from p microbatches on whatever their number, as the makespan
// where W <= F and W <= I, as the span where W <= F; where F < W a rank waits for its F longer than that.

namespace ppsim::catalogue {
namespace {

constexpr std::string_view kName = "interleaved-zb";
constexpr int kDefaultChunks = 2;
constexpr int kMostChunks = 1 << 10;

int chunks_of(const ScheduleParameters& parameters) { return parameters.chunks.value_or(kDefaultChunks); }

int largest_group(const ScheduleParameters& parameters) {
  return even_groups(parameters.ranks, parameters.microbatches).front();
}

Expected<Schedule> generate(const ScheduleParameters& parameters) {
  const int p = parameters.ranks;
  const int v = chunks_of(parameters);
  auto pipeline = make_chain(p, p * v, parameters.microbatches);
  if (!pipeline) return tl::unexpected(pipeline.error());
  ScheduleBuilder builder{std::string(kName), *std::move(pipeline)};
  ChunkOrder order{.ranks = p,
                   .chunks = v,
                   .microbatches = parameters.microbatches,
                   .splits_backward = true,
                   .turns = turns_of(even_groups(p, parameters.microbatches), v)};
  for (int r = 0; r < p; ++r) {
    order.weight_delay = r;
    add_row(builder, order, RankId(r), (v - 1) * largest_group(parameters) + p - 1 - r);
  }
  return builder.build();
}

std::optional<Nanoseconds> span(const ScheduleParameters& parameters, const StageCosts& costs) {
  const Nanoseconds p = parameters.ranks;
  const Nanoseconds w = costs.backward_weight;
  const Nanoseconds both = costs.forward + costs.backward_input;
  const Nanoseconds busy = Nanoseconds{parameters.microbatches} * chunks_of(parameters) * (both + w);
  if (p == 1) return busy;
  if (parameters.microbatches < p || costs.transfer > 0 || costs.forward < w) return std::nullopt;
  return busy + (p - 1) * (both - w);
}

std::optional<Nanoseconds> makespan(const ScheduleParameters& parameters, const StageCosts& costs) {
  if (parameters.ranks > 1 && costs.backward_input < costs.backward_weight) return std::nullopt;
  return span(parameters, costs);
}

std::optional<int> peak(const ScheduleParameters& parameters, RankId) {
  const int v = chunks_of(parameters);
  return std::min((v - 1) * largest_group(parameters) + parameters.ranks, parameters.microbatches * v);
}

}  // namespace

ScheduleInfo interleaved_zb() {
  return {
      .name = kName,
      .summary = "interleaved 1F1B with split backward, as ZB-H1 over several chunks per rank",
      .paper =
          "Qi et al., Zero bubble pipeline parallelism, ICLR 2024, arXiv 2401.10241; PyTorch's "
          "ScheduleInterleavedZeroBubble",
      .placement = "stage s on rank s mod p",
      .constraints = "any ranks, microbatches and chunks",
      .default_chunks = kDefaultChunks,
      .most_chunks = kMostChunks,
      .splits_backward = true,
      .settings = {},
      .generate = generate,
      .forms = {.makespan = makespan,
                .span = span,
                .peak_live_activations = peak,
                .bubble = "(p-1)(F+I-W)",
                .peak = "min(p + (v-1)ceil(m/max(1, floor(m/p))), mv)"},
  };
}

}  // namespace ppsim::catalogue
