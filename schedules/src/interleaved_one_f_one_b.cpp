#include <algorithm>
#include <array>
#include <vector>

#include "catalogue.hpp"
#include "settings.hpp"

// Interleaved 1F1B: rank r holds the chunks r, p + r, 2p + r, ... The microbatches go in groups; a rank runs
// a group through its first chunk, then through its second, and so on; backward the same with the chunks from
// the last to the first. Before the first B stand 2(p-1-r) + (v-1)N + 1 F, for groups of N.
//
// Groups: with the setting `group` as in Megatron-LM (groups of N, the last one smaller but not below p),
// without it as in PyTorch (max(1, m/p) groups, alike). Both refuse other numbers of microbatches; here a
// last group smaller than p joins the one before it, groups that cannot be alike differ by one, and the
// warm-up is that of the largest group, without which such orders deadlock.

namespace ppsim::catalogue {
namespace {

constexpr std::string_view kName = "interleaved-1f1b";
constexpr int kDefaultChunks = 2;
constexpr int kMostChunks = 1 << 10;

constexpr std::array<std::string_view, 4> kGroups = {"2", "4", "6", "8"};
constexpr std::array kSettings = {
    SettingInfo{"group", "microbatches that pass a chunk before the next chunk's turn, in [min(p, m), m]",
                "max(1, m/p) groups, as alike as can be", kGroups},
};

/// As many groups of at least p as there can be, the larger ones first.
std::vector<int> even_groups(int p, int m) {
  const int count = std::max(1, m / p);
  std::vector<int> groups(static_cast<std::size_t>(count), m / count);
  for (int i = 0; i < m % count; ++i) ++groups[static_cast<std::size_t>(i)];
  return groups;
}

std::vector<int> groups_of(int size, int p, int m) {
  std::vector<int> groups(static_cast<std::size_t>(m / size), size);
  const int rest = m % size;
  if (rest >= p) {
    groups.push_back(rest);
  } else {
    groups.back() += rest;
  }
  return groups;
}

std::string refusal(const ScheduleParameters& parameters) {
  return refused_count(parameters, "group",
                       {std::min(parameters.ranks, parameters.microbatches), parameters.microbatches});
}

std::vector<int> group_sizes(const ScheduleParameters& parameters) {
  const std::optional<int> size = count_setting(parameters, "group");
  if (!size) return even_groups(parameters.ranks, parameters.microbatches);
  return groups_of(*size, parameters.ranks, parameters.microbatches);
}

int largest(const std::vector<int>& groups) { return *std::max_element(groups.begin(), groups.end()); }

/// F before the first B on a rank, that of the steady state's first pair aside.
int warmup(const ScheduleParameters& parameters, int chunks, int group, int rank) {
  return std::min(2 * (parameters.ranks - 1 - rank) + (chunks - 1) * group, parameters.microbatches * chunks);
}

struct Turn {
  int chunk;
  int microbatch;
};

/// The order in which a rank's chunks take their microbatches.
std::vector<Turn> turns_of(const std::vector<int>& groups, int chunks) {
  std::vector<Turn> turns;
  int first = 0;
  for (const int size : groups) {
    for (int chunk = 0; chunk < chunks; ++chunk) {
      for (int i = 0; i < size; ++i) turns.push_back({chunk, first + i});
    }
    first += size;
  }
  return turns;
}

Expected<Schedule> generate(const ScheduleParameters& parameters) {
  const int p = parameters.ranks;
  const int v = parameters.chunks.value_or(kDefaultChunks);
  const std::vector<int> groups = group_sizes(parameters);
  auto pipeline = make_chain(p, p * v, parameters.microbatches);
  if (!pipeline) return tl::unexpected(pipeline.error());
  ScheduleBuilder builder{std::string(kName), *std::move(pipeline)};
  const std::vector<Turn> turns = turns_of(groups, v);
  for (int r = 0; r < p; ++r) {
    const auto forward = [&](std::size_t i) {
      builder.add(OpKind::forward, StageId(turns[i].chunk * p + r), MicrobatchId(turns[i].microbatch));
    };
    const auto before = static_cast<std::size_t>(warmup(parameters, v, largest(groups), r));
    for (std::size_t i = 0; i < before; ++i) forward(i);
    for (std::size_t i = 0; i < turns.size(); ++i) {
      if (before + i < turns.size()) forward(before + i);
      builder.add(OpKind::backward, StageId((v - 1 - turns[i].chunk) * p + r),
                  MicrobatchId(turns[i].microbatch));
    }
  }
  return builder.build();
}

std::optional<Nanoseconds> makespan(const ScheduleParameters& parameters, const StageCosts& costs) {
  const std::vector<int> groups = group_sizes(parameters);
  const Nanoseconds p = parameters.ranks;
  const Nanoseconds m = parameters.microbatches;
  const Nanoseconds v = parameters.chunks.value_or(kDefaultChunks);
  const Nanoseconds c = costs.transfer;
  if (m % p != 0 || largest(groups) != p) return std::nullopt;
  if (p > 1 && c > 0 && (v == 1 || c >= std::min(costs.forward, costs.backward))) return std::nullopt;
  const Nanoseconds exposed = p == 1 ? 0 : 2 * (p * v - 1);
  return (m * v + p - 1) * (costs.forward + costs.backward) + exposed * c;
}

std::optional<int> peak(const ScheduleParameters& parameters, RankId rank) {
  const std::vector<int> groups = group_sizes(parameters);
  const int v = parameters.chunks.value_or(kDefaultChunks);
  const int before = warmup(parameters, v, largest(groups), rank.value());
  return std::min(before + 1, parameters.microbatches * v);
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
      .most_chunks = kMostChunks,
      .settings = kSettings,
      .refusal = refusal,
      .generate = generate,
      .forms = {.makespan = makespan,
                .peak_live_activations = peak,
                .bubble = "(p-1)(F+B)",
                .peak = "min(2p - 1 + (v-1)ceil(m/max(1, floor(m/p))), mv)"},
  };
}

}  // namespace ppsim::catalogue
