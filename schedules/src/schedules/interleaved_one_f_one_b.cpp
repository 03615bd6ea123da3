#include <algorithm>
#include <array>
#include <vector>

#include "families/catalogue.hpp"
#include "families/orders/chunk_turns.hpp"
#include "families/rank_rows.hpp"
#include "families/repetitions.hpp"
#include "families/settings.hpp"
#include "families/stage_graphs.hpp"

// Interleaved 1F1B: rank r holds the chunks r, p + r, 2p + r, ... The microbatches go in groups; a rank runs
// a group through its first chunk, then through its second, and so on; backward the same with the chunks from
// the last to the first. Before the first B stand 2(p-1-r) + (v-1)N + 1 F, for groups of N.
//
// Groups: with the setting `group` as in Megatron-LM (groups of N, the last one smaller but not below p),
// without it as in PyTorch (max(1, m/p) groups, alike). Both refuse other numbers of microbatches; here a
// last group smaller than p joins the one before it, groups that cannot be alike differ by one, and the
// warm-up is that of the largest group, without which such orders deadlock. Groups of p are what Llama 3
// calls depth-first, one group of all microbatches what it calls breadth-first (arXiv 2407.21783,
// section 3.3.2).
//
// Kimi K2's order is the same with one F more before the first B on every rank, so that the next F is ready
// to hide the transfers of a B; Megatron-LM does the same with overlap_moe_expert_parallel_comm.

namespace ppsim::schedules::catalogue {
namespace {

constexpr std::string_view kName = "interleaved-1f1b";
constexpr std::string_view kKimiName = "kimi-k2";
constexpr int kKimiForwards = 1;  ///< more than of the interleaved 1F1B, before the first B
constexpr int kDefaultChunks = 2;
constexpr int kMaxChunks = 1 << 10;

constexpr std::array<std::string_view, 4> kGroups = {"2", "4", "6", "8"};
constexpr std::array kSettings = {
    SettingInfo{"group", "microbatches that pass a chunk before the next chunk's turn, in [min(p, m), m]",
                "max(1, m/p) groups, as alike as can be", kGroups},
    kGraphSetting,
    kEncoderSetting,
};

int chunks_of(const ScheduleParameters& parameters) { return parameters.chunks.value_or(kDefaultChunks); }

std::string refusal(const ScheduleParameters& parameters) {
  return refused_count(parameters, "group",
                       {std::min(parameters.ranks, parameters.microbatches), parameters.microbatches}) +
         refused_graph(parameters, parameters.ranks * chunks_of(parameters));
}

std::vector<int> group_sizes(const ScheduleParameters& parameters) {
  const std::optional<int> size = count_setting(parameters, "group");
  if (!size) return even_groups(parameters.ranks, parameters.microbatches);
  return groups_of(*size, parameters.ranks, parameters.microbatches);
}

/// F before the first B on a rank, that of the steady state's first pair aside.
int warmup(const ScheduleParameters& parameters, const std::vector<int>& groups, int rank) {
  const int largest = *std::ranges::max_element(groups);
  return 2 * (parameters.ranks - 1 - rank) + (chunks_of(parameters) - 1) * largest;
}

Expected<Schedule> generate_as(std::string_view name, const ScheduleParameters& parameters, int further) {
  const std::vector<int> groups = group_sizes(parameters);
  const int chunks = chunks_of(parameters);
  PPSIM_ASSIGN_OR_RETURN(auto pipeline, make_looped(parameters, chunks));
  ScheduleBuilder builder{std::string(name), std::move(pipeline)};
  const ChunkOrder order{.ranks = parameters.ranks,
                         .chunks = chunks,
                         .microbatches = parameters.microbatches,
                         .turns = turns_of(groups, chunks)};
  add_rows(parameters,
           [&](int r) { add_row(builder, order, RankId(r), warmup(parameters, groups, r) + further); });
  return std::move(builder).build();
}

Expected<Schedule> generate(const ScheduleParameters& parameters) {
  return generate_as(kName, parameters, 0);
}

Expected<Schedule> generate_kimi(const ScheduleParameters& parameters) {
  return generate_as(kKimiName, parameters, kKimiForwards);
}

/// Whether the form with transfers holds: no group waits for another, and transfers hide behind actions.
bool hides_transfers(const ScheduleParameters& parameters, const StageCosts& costs,
                     const std::vector<int>& groups) {
  return is_chain(parameters) && groups.front() == groups.back() &&
         costs.transfer < std::min(costs.forward, costs.backward);
}

/// A rank never waits but at its first and last action, for the first group to come round (all chunks but the
/// first), and for the last group to come round backward. The paper has no transfers in its form.
std::optional<Nanoseconds> makespan(const ScheduleParameters& parameters, const StageCosts& costs) {
  const std::vector<int> groups = group_sizes(parameters);
  const Nanoseconds p = parameters.ranks;
  const Nanoseconds v = chunks_of(parameters);
  const Nanoseconds c = p == 1 ? 0 : costs.transfer;
  if (c > 0 && !hides_transfers(parameters, costs, groups)) return std::nullopt;
  const Nanoseconds both = costs.forward + costs.backward;
  const auto wait = [&](Nanoseconds action, int group) {
    return std::max<Nanoseconds>(0, p * (action + c) - group * action);
  };
  return parameters.microbatches * v * both + (p - 1) * (both + 2 * c) +
         (v - 1) * (wait(costs.forward, groups.front()) + wait(costs.backward, groups.back()));
}

int max_live(const ScheduleParameters& parameters, RankId rank, int further) {
  const int forwards = warmup(parameters, group_sizes(parameters), rank.value()) + further + 1;
  return std::min(forwards, parameters.microbatches * chunks_of(parameters));
}

std::optional<int> peak(const ScheduleParameters& parameters, RankId rank) {
  return max_live(parameters, rank, 0);
}

std::optional<int> kimi_peak(const ScheduleParameters& parameters, RankId rank) {
  return max_live(parameters, rank, kKimiForwards);
}

}  // namespace

ScheduleInfo interleaved_one_f_one_b() {
  return {
      .name = kName,
      .summary = "1F1B over several chunks per rank, in groups of microbatches",
      .paper =
          "Narayanan et al., Efficient large-scale language model training on GPU clusters, SC 2021, arXiv "
          "2104.04473",
      .placement = "stage s on rank s mod p",
      .constraints = "any ranks, microbatches and chunks; group in [min(p, m), m]",
      .default_chunks = kDefaultChunks,
      .max_chunks = kMaxChunks,
      .settings = kSettings,
      .refusal = refusal,
      .generate = generate,
      .repetitions = repeats_by_group,
      .forms = {.makespan = makespan,
                .peak_live_activations = peak,
                .bubble = "(p-1)(F+B) for m >= p",
                .peak = "min((v+1)p - 1, mv) for p | m"},
  };
}

ScheduleInfo kimi_k2() {
  ScheduleInfo info = interleaved_one_f_one_b();
  info.name = kKimiName;
  info.summary = "interleaved 1F1B with one more forward before the first backward";
  info.paper =
      "Kimi team, Kimi K2, 2025, arXiv 2507.20534; the order as in JaxPP's KimiK2 and in Megatron-LM with "
      "overlapped expert communication";
  info.generate = generate_kimi;
  info.forms.peak_live_activations = kimi_peak;
  info.forms.peak = "min((v+1)p, mv) for p | m";
  return info;
}

}  // namespace ppsim::schedules::catalogue
