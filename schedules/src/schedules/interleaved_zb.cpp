#include <algorithm>

#include "families/catalogue.hpp"
#include "families/orders/chunk_turns.hpp"
#include "families/repetitions.hpp"

// Interleaved zero bubble: the interleaved 1F1B with the backward split, half the F before the steady state,
// and W r backwards late on rank r, as ZB-H1 is to 1F1B. The order is that of PyTorch's
// ScheduleInterleavedZeroBubble; microbatches that PyTorch refuses go in groups that differ by one, as in the
// interleaved 1F1B.
//
// Bubble in times of a chunk, from p microbatches on whatever their number: (p-1)(F+I-W) where W is no longer
// than F and I; for any F, I and W (p-1) max(F, I, F+I-W) of the makespan, (p-1) max(I, F+I-W) of the span.
// With transfers, which the paper leaves out, p(v-1) of them are waited for while groups come round, and
// 2(p-1) to 4(p-1) at the ends.

namespace ppsim::schedules::catalogue {
namespace {

constexpr std::string_view kName = "interleaved-zb";
constexpr int kDefaultChunks = 2;
constexpr int kMaxChunks = 1 << 10;

int chunks_of(const ScheduleParameters& parameters) { return parameters.chunks.value_or(kDefaultChunks); }

int largest_group(const ScheduleParameters& parameters) {
  return even_groups(parameters.ranks, parameters.microbatches).front();
}

Expected<Schedule> generate(const ScheduleParameters& parameters) {
  const int p = parameters.ranks;
  const int v = chunks_of(parameters);
  PPSIM_ASSIGN_OR_RETURN(auto pipeline, make_chain(p, p * v, parameters.microbatches));
  ScheduleBuilder builder{std::string(kName), std::move(pipeline)};
  ChunkOrder order{.ranks = p,
                   .chunks = v,
                   .microbatches = parameters.microbatches,
                   .splits_backward = true,
                   .turns = turns_of(even_groups(p, parameters.microbatches), v)};
  for (int r = 0; r < p; ++r) {
    order.weight_delay = r;
    add_row(builder, order, RankId(r), (v - 1) * largest_group(parameters) + p - 1 - r);
  }
  return std::move(builder).build();
}

/// Whether groups all alike come round in time and a W hides both transfers of the steady state.
bool hides_transfers(const ScheduleParameters& parameters, const StageCosts& costs) {
  const int p = parameters.ranks;
  const Nanoseconds c = costs.transfer;
  return parameters.microbatches % p == 0 && parameters.microbatches >= 2 * p &&
         2 * c <= costs.backward_weight && c < std::min(costs.forward, costs.backward_input);
}

/// Busy time and bubble; `each` is what every rank but one adds, two transfers aside.
std::optional<Nanoseconds> time_of(const ScheduleParameters& parameters, const StageCosts& costs,
                                   Nanoseconds each) {
  const Nanoseconds p = parameters.ranks;
  const Nanoseconds v = chunks_of(parameters);
  const Nanoseconds c = costs.transfer;
  const Nanoseconds busy =
      parameters.microbatches * v * (costs.forward + costs.backward_input + costs.backward_weight);
  if (p == 1) return busy;
  if (parameters.microbatches < p || (c > 0 && !hides_transfers(parameters, costs))) return std::nullopt;
  return busy + (p - 1) * (each + 2 * c) + p * (v - 1) * c;
}

/// F and I of a rank with their transfers, as far as W does not fill them.
Nanoseconds both_ways(const StageCosts& costs) {
  return costs.forward + costs.backward_input - costs.backward_weight + 2 * costs.transfer;
}

std::optional<Nanoseconds> makespan(const ScheduleParameters& parameters, const StageCosts& costs) {
  return time_of(parameters, costs,
                 std::max({costs.forward + costs.transfer, costs.backward_input, both_ways(costs)}));
}

std::optional<Nanoseconds> span(const ScheduleParameters& parameters, const StageCosts& costs) {
  return time_of(parameters, costs, std::max(costs.backward_input, both_ways(costs)));
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
      .max_chunks = kMaxChunks,
      .splits_backward = true,
      .settings = {},
      .generate = generate,
      .repetitions = repeats_by_group,
      .forms = {.makespan = makespan,
                .span = span,
                .peak_live_activations = peak,
                .bubble = "(p-1)(F+I-W) for m >= p, F >= W, I >= W",
                .peak = "pv for p | m"},
  };
}

}  // namespace ppsim::schedules::catalogue
