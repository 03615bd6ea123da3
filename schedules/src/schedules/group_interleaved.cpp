#include <algorithm>
#include <array>

#include "families/catalogue.hpp"
#include "families/orders/chunk_turns.hpp"
#include "families/rank_rows.hpp"
#include "families/repetitions.hpp"
#include "families/settings.hpp"

// PipeOffload's group-interleaved schedule (GIS): interleaved 1F1B with groups of N microbatches and half its
// warm-up, p-1-r F beside the (v-1)N of the first chunks; W directly after I. With groups of p rank 0 holds v
// p chunks where interleaved 1F1B holds (v+1) p - 1; with groups of p/2, called GIS-H, it holds (v+1) p / 2
// and each chunk but the first waits for p/2 more F. Below (p-1)/2 such orders deadlock; the authors take no
// group smaller than ceil(p/2), and choose N so that p F, and p I, last no longer than N whole passes.
//
// Microbatches need not fill the last group: the order is then that of a full one without the surplus. These
// are the rows of the authors' building block, repeated and squeezed.

namespace ppsim::schedules::catalogue {
namespace {

constexpr std::string_view kName = "group-interleaved";
constexpr int kDefaultChunks = 2;
constexpr int kMaxChunks = 1 << 10;

constexpr std::array<std::string_view, 4> kGroups = {"1", "2", "3", "4"};
constexpr std::array<std::string_view, 2> kBackwards = {"split", "fused"};
constexpr std::array kSettings = {
    SettingInfo{"group", "microbatches that pass a chunk before the next chunk's turn, in [ceil(p/2), p]",
                "p", kGroups},
    SettingInfo{"backward", "split in I and W, or fused in B", "split", kBackwards},
};

std::string refusal(const ScheduleParameters& parameters) {
  return refused_count(parameters, "group", {(parameters.ranks + 1) / 2, parameters.ranks}) +
         refused_word(parameters, "backward", kBackwards);
}

int chunks_of(const ScheduleParameters& parameters) { return parameters.chunks.value_or(kDefaultChunks); }
int group_of(const ScheduleParameters& parameters) {
  return count_setting(parameters, "group").value_or(parameters.ranks);
}
bool splits(const ScheduleParameters& parameters) { return setting(parameters, "backward") != "fused"; }

/// F before the first backward, that of the steady state's first pair aside.
int warmup(const ScheduleParameters& parameters, int rank) {
  return (chunks_of(parameters) - 1) * group_of(parameters) + parameters.ranks - 1 - rank;
}

Expected<Schedule> generate(const ScheduleParameters& parameters) {
  const int p = parameters.ranks;
  const int v = chunks_of(parameters);
  const int group = group_of(parameters);
  PPSIM_ASSIGN_OR_RETURN(auto pipeline, make_chain(p, p * v, parameters.microbatches));
  ScheduleBuilder builder{std::string(kName), std::move(pipeline)};
  const int count = (parameters.microbatches + group - 1) / group;
  const ChunkOrder order{.ranks = p,
                         .chunks = v,
                         .microbatches = parameters.microbatches,
                         .splits_backward = splits(parameters),
                         .turns = turns_of(std::vector<int>(as_size(count), group), v)};
  add_rows(parameters, [&](int r) { add_row(builder, order, RankId(r), warmup(parameters, r)); });
  return std::move(builder).build();
}

struct PassTimes {
  Nanoseconds forward, backward, whole;
};

PassTimes pass_times(const ScheduleParameters& parameters, const StageCosts& costs) {
  if (!splits(parameters)) return {costs.forward, costs.backward, costs.forward + costs.backward};
  return {costs.forward, costs.backward_input, costs.forward + costs.backward_input + costs.backward_weight};
}

/// Whether the steady state runs without a pause: a microbatch comes round all ranks while a group passes.
bool runs_on(const ScheduleParameters& parameters, const PassTimes& times) {
  const int group = group_of(parameters);
  if (group == parameters.ranks || chunks_of(parameters) == 1) return true;
  const Nanoseconds weight = times.whole - times.forward - times.backward;
  return parameters.ranks * std::max(times.forward, times.backward) <= group * times.whole &&
         weight <= times.forward + times.backward;
}

/// For full groups and no transfers. Each chunk but the first waits for the first group to come round, and
/// likewise back.
std::optional<Nanoseconds> makespan(const ScheduleParameters& parameters, const StageCosts& costs) {
  const Nanoseconds p = parameters.ranks;
  const Nanoseconds v = chunks_of(parameters);
  const Nanoseconds group = group_of(parameters);
  const PassTimes times = pass_times(parameters, costs);
  if (parameters.microbatches % group != 0 || (costs.transfer > 0 && p > 1)) return std::nullopt;
  if (!runs_on(parameters, times)) return std::nullopt;
  const Nanoseconds back = times.whole - times.forward;
  return parameters.microbatches * v * times.whole + (p - 1) * (times.forward + times.backward) +
         (v - 1) *
             ((p - group) * times.forward + std::max<Nanoseconds>(0, p * times.backward - group * back));
}

std::optional<Nanoseconds> busy(const ScheduleParameters& parameters, const StageCosts& costs) {
  return parameters.microbatches * Nanoseconds{chunks_of(parameters)} * pass_times(parameters, costs).whole;
}

std::optional<int> peak(const ScheduleParameters& parameters, RankId rank) {
  if (parameters.microbatches % group_of(parameters) != 0) return std::nullopt;
  return std::min(warmup(parameters, rank.value()) + 1, parameters.microbatches * chunks_of(parameters));
}

}  // namespace

ScheduleInfo group_interleaved() {
  return {
      .name = kName,
      .summary = "interleaved 1F1B with half the warm-up, in groups of half the ranks to all",
      .paper = "Wan et al., PipeOffload, ICML 2025, arXiv 2503.01328",
      .placement = "stage s on rank s mod p",
      .constraints = "any ranks, microbatches and chunks; group in [ceil(p/2), p]",
      .default_chunks = kDefaultChunks,
      .max_chunks = kMaxChunks,
      .splits_backward = true,
      .settings = kSettings,
      .refusal = refusal,
      .generate = generate,
      .repetitions = repeats_by_group,
      .forms = {.makespan = makespan,
                .peak_live_activations = peak,
                .busy = busy,
                .bubble = "(p-1)(F+I) for p | m",
                .peak = "pv for p | m"},
  };
}

}  // namespace ppsim::schedules::catalogue
