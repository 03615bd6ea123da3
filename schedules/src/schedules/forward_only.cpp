#include <algorithm>
#include <array>
#include <vector>

#include "families/catalogue.hpp"
#include "families/orders/chunk_turns.hpp"
#include "families/repetitions.hpp"
#include "families/settings.hpp"
#include "families/stage_graphs.hpp"

// Inference: F alone, nothing is kept of a microbatch when its F is over. With several chunks per rank the
// microbatches go breadth-first, all of them through a chunk before the next chunk's turn, or depth-first, in
// groups of p as the interleaved 1F1B takes them, which finishes the first microbatches sooner.

namespace ppsim::schedules::catalogue {
namespace {

constexpr std::string_view kName = "forward-only";
constexpr int kMaxChunks = 1 << 10;

constexpr std::array<std::string_view, 2> kOrders = {"breadth-first", "depth-first"};
constexpr std::array kSettings = {
    SettingInfo{"order", "how microbatches go through the chunks: breadth-first or depth-first",
                "breadth-first", kOrders},
    kGraphSetting,
    kEncoderSetting,
};

std::string refusal(const ScheduleParameters& parameters) {
  return refused_word(parameters, "order", kOrders) +
         refused_graph(parameters, parameters.ranks * parameters.chunks.value_or(1));
}

std::vector<int> groups(const ScheduleParameters& parameters) {
  if (setting(parameters, "order") != "depth-first") return {parameters.microbatches};
  return even_groups(parameters.ranks, parameters.microbatches);
}

Expected<Schedule> generate(const ScheduleParameters& parameters) {
  const int chunks = parameters.chunks.value_or(1);
  PPSIM_ASSIGN_OR_RETURN(auto pipeline, make_looped(parameters, chunks));
  ScheduleBuilder builder{std::string(kName), std::move(pipeline)};
  const std::vector<Turn> turns = turns_of(groups(parameters), chunks);
  for (int r = 0; r < parameters.ranks; ++r) {
    for (const Turn& turn : turns) {
      builder.add(OpKind::forward, StageId(turn.chunk * parameters.ranks + r), MicrobatchId(turn.microbatch));
    }
  }
  return std::move(builder).build();
}

/// A group's turn on a chunk lasts until it is through or its first microbatch has come round all ranks.
std::optional<Nanoseconds> makespan(const ScheduleParameters& parameters, const StageCosts& costs) {
  const Nanoseconds p = parameters.ranks;
  const Nanoseconds c = p == 1 ? 0 : costs.transfer;
  if (c > 0 && !is_chain(parameters)) return std::nullopt;
  const Nanoseconds further = parameters.chunks.value_or(1) - 1;
  const Nanoseconds round = p * (costs.forward + c);
  Nanoseconds time = (p - 1) * (costs.forward + c);
  for (const int group : groups(parameters)) {
    const Nanoseconds through = group * costs.forward;
    time += further * std::max(through, round) + through;
  }
  return time;
}

std::optional<int> peak(const ScheduleParameters&, RankId) { return 1; }

}  // namespace

ScheduleInfo forward_only() {
  return {
      .name = kName,
      .summary = "inference: forwards alone",
      .paper = "the forward half of GPipe (arXiv 1811.06965) and of interleaved 1F1B (arXiv 2104.04473)",
      .placement = "stage s on rank s mod p",
      .constraints = "any ranks, microbatches and chunks",
      .max_chunks = kMaxChunks,
      .forward_only = true,
      .settings = kSettings,
      .refusal = refusal,
      .generate = generate,
      .repetitions = repeats_from_the_first,
      .forms = {.makespan = makespan,
                .peak_live_activations = peak,
                .bubble = "(p-1)F for m >= p",
                .peak = "1"},
  };
}

}  // namespace ppsim::schedules::catalogue
