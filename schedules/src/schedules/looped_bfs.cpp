#include <algorithm>
#include <array>

#include "families/catalogue.hpp"
#include "families/repetitions.hpp"
#include "families/settings.hpp"
#include "families/stage_graphs.hpp"

// Looped BFS, also breadth-first: rank r holds the chunks r, p + r, 2p + r, ...; all microbatches pass a
// chunk before the next chunk's turn, and back from the last chunk to the first. Each chunk's weights are
// needed in one stretch forward and one backward, which suits sharded parameters. PyTorch's ScheduleLoopedBFS
// reverses the microbatches in the backward; `same` keeps them in the order of accumulation.

namespace ppsim::schedules::catalogue {
namespace {

constexpr std::string_view kName = "looped-bfs";
constexpr int kDefaultChunks = 2;
constexpr int kMaxChunks = 1 << 10;

constexpr std::array<std::string_view, 2> kBackwardOrders = {"reversed", "same"};
constexpr std::array kSettings = {
    SettingInfo{"backward", "order of the microbatches in the backward: reversed or same", "reversed",
                kBackwardOrders},
    kGraphSetting,
    kEncoderSetting,
};

int chunks_of(const ScheduleParameters& parameters) { return parameters.chunks.value_or(kDefaultChunks); }

std::string refusal(const ScheduleParameters& parameters) {
  return refused_word(parameters, "backward", kBackwardOrders) +
         refused_graph(parameters, parameters.ranks * chunks_of(parameters));
}

void add_row(ScheduleBuilder& builder, const ScheduleParameters& parameters, int rank) {
  const int m = parameters.microbatches;
  const int v = chunks_of(parameters);
  const bool reversed = setting(parameters, "backward") != "same";
  const auto stage = [&](int chunk) { return StageId(chunk * parameters.ranks + rank); };
  for (int chunk = 0; chunk < v; ++chunk) {
    for (int i = 0; i < m; ++i) builder.add(OpKind::forward, stage(chunk), MicrobatchId(i));
  }
  for (int chunk = v - 1; chunk >= 0; --chunk) {
    for (int i = 0; i < m; ++i) {
      builder.add(OpKind::backward, stage(chunk), MicrobatchId(reversed ? m - 1 - i : i));
    }
  }
}

Expected<Schedule> generate(const ScheduleParameters& parameters) {
  PPSIM_ASSIGN_OR_RETURN(auto pipeline, make_looped(parameters, chunks_of(parameters)));
  ScheduleBuilder builder{std::string(kName), std::move(pipeline)};
  for (int r = 0; r < parameters.ranks; ++r) add_row(builder, parameters, r);
  return std::move(builder).build();
}

/// A chunk's turn lasts until its microbatches are through or the first of them has come round all ranks.
/// With m >= p and no transfers this is m (F + B) + (p - 1)(F + B) / v in times of a whole rank.
std::optional<Nanoseconds> makespan(const ScheduleParameters& parameters, const StageCosts& costs) {
  const Nanoseconds p = parameters.ranks;
  const Nanoseconds m = parameters.microbatches;
  const Nanoseconds c = p == 1 ? 0 : costs.transfer;
  if (c > 0 && !is_chain(parameters)) return std::nullopt;
  const auto turn = [&](Nanoseconds action) { return std::max(m * action, p * (action + c)); };
  const Nanoseconds both = costs.forward + costs.backward;
  return (chunks_of(parameters) - 1) * (turn(costs.forward) + turn(costs.backward)) + (m + p - 1) * both +
         2 * (p - 1) * c;
}

std::optional<int> peak(const ScheduleParameters& parameters, RankId) {
  return parameters.microbatches * chunks_of(parameters);
}

}  // namespace

ScheduleInfo looped_bfs() {
  return {
      .name = kName,
      .summary = "all microbatches through a chunk before the next chunk's turn",
      .paper = "Lamy-Poirier, Breadth-first pipeline parallelism, MLSys 2023, arXiv 2211.05953",
      .placement = "stage s on rank s mod p",
      .constraints = "any ranks, microbatches and chunks",
      .default_chunks = kDefaultChunks,
      .max_chunks = kMaxChunks,
      .ascending_accumulation = false,
      .settings = kSettings,
      .refusal = refusal,
      .generate = generate,
      .repetitions = repeats_from_the_first,
      .forms = {.makespan = makespan,
                .peak_live_activations = peak,
                .bubble = "(p-1)(F+B) for m >= p",
                .peak = "mv"},
  };
}

}  // namespace ppsim::schedules::catalogue
