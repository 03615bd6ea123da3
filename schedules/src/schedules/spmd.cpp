#include <algorithm>
#include <utility>
#include <vector>

#include "families/catalogue.hpp"
#include "families/repetitions.hpp"

// SPMD pipelines: one program for all ranks, a scan over ticks. In tick t rank r computes its part of the
// model on what it holds and passes the result to rank r + 1 by a collective permute, so that microbatch i is
// on rank r in tick i + r. With several chunks the pipeline is circular: all m microbatches pass the first
// chunks, then come round to rank 0 and pass the second ones, in T = mv + p - 1 ticks. The gradient of a scan
// is a scan the other way round: all T ticks once more, from the last to the first.
//
// No rank can sit out a tick. Before its first microbatch and behind its last one, a rank computes on what is
// in its buffers, sends it on, and keeps of it for the backward what it keeps of a microbatch. Here this is
// padding: microbatches from m on, whose route is what is left of the ranks when their ticks begin (m, ...,
// m+p-2, the first on rank 1), or end (m+p-1, ..., m+2p-3), on the first chunk and on the last.
//
// The permute of a tick stands between it and the next. In an order with receives in advance a rank runs on,
// and only the first tick of a microbatch pays for its way; receives just in time hold a tick back for the
// permute, as XLA does where nothing hides it: then every tick but the last of each scan takes c longer.

namespace ppsim::schedules::catalogue {
namespace {

constexpr std::string_view kName = "spmd-gpipe";
constexpr std::string_view kCircularName = "spmd-circular";
constexpr int kDefaultChunks = 2;
constexpr int kMaxChunks = 1 << 10;
constexpr int kMaxRanks = 1 << 10;

/// The dimensions that the scan runs over.
struct Scan {
  int ranks = 1;
  int microbatches = 1;
  int chunks = 1;

  [[nodiscard]] int turns() const { return microbatches * chunks; }
  [[nodiscard]] int ticks() const { return turns() + ranks - 1; }

  /// F of a rank in a tick.
  [[nodiscard]] Action forward(int rank, int tick) const {
    const int turn = tick - rank;
    if (turn < 0) return make_action(OpKind::forward, rank, microbatches - turn - 1);
    if (turn < turns())
      return make_action(OpKind::forward, turn / microbatches * ranks + rank, turn % microbatches);
    const int behind = turn - turns();
    return make_action(OpKind::forward, (chunks - 1) * ranks + rank, microbatches + ranks - 1 + behind);
  }
};

std::vector<StageId> stages_between(int first, int end) {
  std::vector<StageId> stages;
  for (int s = first; s < end; ++s) stages.emplace_back(s);
  return stages;
}

PipelineSpec spec_of(const Scan& scan) {
  const int p = scan.ranks;
  PipelineSpec spec{.ranks = p, .stages = p * scan.chunks, .microbatches = scan.microbatches + 2 * (p - 1)};
  spec.route = IdVector<MicrobatchId, RouteId>(as_size(scan.microbatches), RouteId(0));
  spec.update = IdVector<MicrobatchId, int>(as_size(scan.microbatches), 0);
  spec.routes.push_back(stages_between(0, spec.stages));
  const auto add_padding = [&](std::vector<StageId> stages) {
    spec.route.push_back(RouteId(static_cast<std::int32_t>(spec.routes.size())));
    spec.update.push_back(-1);
    spec.routes.push_back(std::move(stages));
  };
  for (int first = 1; first < p; ++first) add_padding(stages_between(first, p));
  for (int end = p - 1; end > 0; --end) add_padding(stages_between(spec.stages - p, spec.stages - p + end));
  return spec;
}

Scan scan_of(const ScheduleParameters& parameters, int chunks) {
  return {.ranks = parameters.ranks, .microbatches = parameters.microbatches, .chunks = chunks};
}
int circular_chunks(const ScheduleParameters& parameters) {
  return parameters.chunks.value_or(kDefaultChunks);
}

/// A chunk's turn is over when its microbatches are through; the first of them has come round by then.
std::string refusal(const ScheduleParameters& parameters) {
  if (circular_chunks(parameters) == 1 || parameters.microbatches >= parameters.ranks) return "";
  return "several chunks need at least as many microbatches as ranks, " + std::to_string(parameters.ranks) +
         ", found " + std::to_string(parameters.microbatches);
}

Expected<Schedule> generate(std::string_view name, const Scan& scan) {
  PPSIM_ASSIGN_OR_RETURN(auto pipeline, Pipeline::make(spec_of(scan)));
  ScheduleBuilder builder{std::string(name), std::move(pipeline)};
  for (int r = 0; r < scan.ranks; ++r) {
    for (int t = 0; t < scan.ticks(); ++t) builder.add(RankId(r), scan.forward(r, t));
    for (int t = scan.ticks() - 1; t >= 0; --t) {
      Action backward = scan.forward(r, t);
      backward.kind = OpKind::backward;
      builder.add(RankId(r), backward);
    }
  }
  return std::move(builder).build();
}

/// All ticks, and the way of one microbatch there and back; with several chunks also what the first
/// microbatch takes longer to come round than its chunk's turn lasts. Longer transfers than ticks pile up.
std::optional<Nanoseconds> makespan(const Scan& scan, const StageCosts& costs) {
  const Nanoseconds p = scan.ranks;
  const Nanoseconds c = p == 1 ? 0 : costs.transfer;
  if (c > std::min(costs.forward, costs.backward)) return std::nullopt;
  const auto wait = [&](Nanoseconds tick) {
    return std::max<Nanoseconds>(0, p * (tick + c) - scan.microbatches * tick);
  };
  return scan.ticks() * (costs.forward + costs.backward) + 2 * (p - 1) * c +
         (scan.chunks - 1) * (wait(costs.forward) + wait(costs.backward));
}

constexpr std::string_view kPaper =
    "Xu et al., GSPMD, 2021, arXiv 2105.04663, as a scan over ticks in Praxis and MaxText; what JaxPP (arXiv "
    "2412.14374) is compared with";

}  // namespace

ScheduleInfo spmd_gpipe() {
  return {
      .name = kName,
      .summary = "GPipe as one program for all ranks: bubbles compute padding and keep it",
      .paper = kPaper,
      .placement = "stage s on rank s",
      .constraints = "any microbatches, at most 1024 ranks",
      .max_ranks = kMaxRanks,
      .ascending_accumulation = false,
      .generate =
          [](const ScheduleParameters& parameters) {
            return catalogue::generate(kName, scan_of(parameters, 1));
          },
      .repetitions = repeats_once_filled,
      .forms = {.makespan = [](const ScheduleParameters& parameters,
                               const StageCosts& costs) { return makespan(scan_of(parameters, 1), costs); },
                .peak_live_activations = [](const ScheduleParameters& parameters,
                                            RankId) { return std::optional(scan_of(parameters, 1).ticks()); },
                .bubble = "(p-1)(F+B) + 2(p-1)c",
                .peak = "m+p-1"},
  };
}

ScheduleInfo spmd_circular() {
  ScheduleInfo info = spmd_gpipe();
  info.name = kCircularName;
  info.summary = "spmd-gpipe over several chunks per rank: all microbatches, then the next chunk";
  info.placement = "stage s on rank s mod p";
  info.constraints = "m >= p for several chunks, at most 1024 ranks";
  info.default_chunks = kDefaultChunks;
  info.max_chunks = kMaxChunks;
  info.refusal = refusal;
  info.generate = [](const ScheduleParameters& parameters) {
    return catalogue::generate(kCircularName, scan_of(parameters, circular_chunks(parameters)));
  };
  info.forms.makespan = [](const ScheduleParameters& parameters, const StageCosts& costs) {
    return makespan(scan_of(parameters, circular_chunks(parameters)), costs);
  };
  info.forms.peak_live_activations = [](const ScheduleParameters& parameters, RankId) {
    return std::optional(scan_of(parameters, circular_chunks(parameters)).ticks());
  };
  info.forms.bubble = "(p-1)(F+B)";
  info.forms.peak = "mv+p-1";
  return info;
}

}  // namespace ppsim::schedules::catalogue
