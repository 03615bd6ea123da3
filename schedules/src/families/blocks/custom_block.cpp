#include <array>

#include "block_text.hpp"
#include "building_block.hpp"
#include "families/catalogue.hpp"
#include "families/placements.hpp"
#include "families/repetitions.hpp"
#include "families/settings.hpp"
#include "v_blocks.hpp"

// A building block of the user's own (2405.15362, section 2): where microbatch 0 computes, and when, as
// formulas over ranks. It is checked, repeated for every microbatch, reordered in the warm-up and the
// cool-down without raising its peak, and squeezed. Without offsets it is the block of 1F1B; for more chunks
// its kin, in which every third slot of a rank is for F and the two after it for a B.

namespace ppsim::schedules::catalogue {
namespace {

constexpr std::string_view kName = "building-block";
constexpr int kMaxChunks = 64;
constexpr int kMaxInterval = 1 << 12;
constexpr int kMaxSlots = 1 << 30;

constexpr std::array<std::string_view, 3> kPlacements = {"chain", "loop", "v"};
constexpr std::array<std::string_view, 3> kReorderings = {"none", "ranks", "peak"};
constexpr std::array<std::string_view, 4> kIntervals = {"3", "3v", "3v + 1", "2(p + 4v)"};
constexpr std::array<std::string_view, 6> kOffsets = {
    "F: i; B: 3p - 2 - 2i",
    "F: i; I: 3p - 2 - 2i; W: 3p - 1 - 2i",
    "F0: i; F1: 2p-i-1; I1: 2p + 2(1-(p%3+2)/3) + i; I0: 4p + 2(1-(p%3+2)/3) - i - 1",
    "F0: 2i; F1: 3p-i-2; I1: 3p + 3(1-p%2) + 2i - 1; I0: 6p + 3(1-p%2) - i - 2",
    "F0: 3i; F1: 3p + 3i + 1; F2: 6p + 3i + 2; B2: 9p + 3(p-i); B1: 12p + 3(p-i) + 2; B0: 15p + 3(p-i) + 4",
    "F: [0 1]; I: [4 2]; W: [5 3]",
};
constexpr std::array kSettings = {
    SettingInfo{"placement", "chain (stage s on rank s), loop (s mod p) or v (down the ranks and back up)",
                "chain, loop for more chunks", kPlacements},
    SettingInfo{"interval", "slots between microbatches, a formula in p and v", "3v", kIntervals},
    SettingInfo{"offsets",
                "first slot of F, of B or of I and W, of microbatch 0 per chunk, e.g. \"F: i; B: 3p-2-2i\"",
                "the block of 1F1B", kOffsets},
    SettingInfo{"reorder",
                "what moves in the warm-up and the cool-down: none, ranks (what keeps the peak of its rank) "
                "or peak (what keeps the peak over the ranks)",
                "ranks", kReorderings},
};

/// The block that the settings describe, and the mistakes in them.
struct ReadBlock {
  BuildingBlock block;
  std::string complaints;

  void complain(const std::string& line) { complaints += line + '\n'; }
  void complain(const std::string& name, const TextError& error) {
    complain(name + ": column " + std::to_string(error.column) + ": " + error.message);
  }
};

std::vector<RankId> placement_of(const ScheduleParameters& parameters, int chunks) {
  if (setting(parameters, "placement") == "v") return folded_placement(parameters.ranks, chunks);
  std::vector<RankId> placement;
  for (int s = 0; s < parameters.ranks * chunks; ++s) placement.emplace_back(s % parameters.ranks);
  return placement;
}

void read_placement(const ScheduleParameters& parameters, int chunks, ReadBlock& read) {
  read.complaints += refused_word(parameters, "placement", kPlacements);
  if (setting(parameters, "placement") == "chain" && chunks > 1) {
    read.complain("placement chain has one chunk per rank, found " + std::to_string(chunks));
  }
  for (const RankId rank : placement_of(parameters, chunks)) {
    read.block.stages.push_back({.rank = rank, .weight = {}});
  }
}

void read_interval(const ScheduleParameters& parameters, int chunks, ReadBlock& read) {
  const std::string text = setting(parameters, "interval").value_or("3v");
  std::size_t column = 1;
  const auto interval = read_formula(text, column, {.p = parameters.ranks, .v = chunks});
  if (!interval) return read.complain("interval", interval.error());
  if (column <= text.size()) return read.complain("interval", expected_at(text, column, "the end"));
  if (*interval < 1 || *interval > kMaxInterval) {
    return read.complain("interval must be in [1, " + std::to_string(kMaxInterval) + "], found " +
                         std::to_string(*interval));
  }
  read.block.interval = *interval;
}

/// The slots of an entry; nothing where it is missing, which is said if it must not be.
const RankSlots* entry(const BlockSlots& slots, char kind, int chunk, ReadBlock& read) {
  const auto found = slots.find({kind, chunk});
  if (found != slots.end()) return &found->second;
  read.complain(std::string("offsets: ") + kind + std::to_string(chunk) + " is missing");
  return nullptr;
}

bool names_kind(const BlockSlots& slots, char kind) {
  const auto after = slots.lower_bound({kind, 0});
  return after != slots.end() && after->first.first == kind;
}

void read_slots(const BlockSlots& slots, int chunks, ReadBlock& read) {
  read.block.splits_backward = !names_kind(slots, 'B');
  const bool whole = !read.block.splits_backward;
  const bool places = names_kind(slots, 'W');
  if (whole && (places || names_kind(slots, 'I'))) {
    return read.complain("offsets: expected either B or I and W, found both");
  }
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const RankSlots* forward = entry(slots, 'F', chunk, read);
    const RankSlots* backward = entry(slots, whole ? 'B' : 'I', chunk, read);
    const RankSlots* weight = places ? entry(slots, 'W', chunk, read) : nullptr;
    if (!read.complaints.empty()) continue;
    const auto ranks = as_size(read.block.ranks);
    for (std::size_t i = 0; i < ranks; ++i) {
      BlockStage& stage = read.block.stages[as_size(chunk) * ranks + i];
      stage.forward = (*forward)[stage.rank.index()];
      stage.backward = (*backward)[stage.rank.index()];
      if (weight != nullptr) stage.weight = (*weight)[stage.rank.index()];
    }
  }
}

/// The first slot from `slot` on that is `phase` modulo 3 and free in the interval, which it then is no more.
int next_of_phase(int slot, int phase, std::vector<char>& used) {
  const auto interval = static_cast<int>(used.size());
  while (slot % 3 != phase % 3 || used[as_size(slot % interval)] != 0) ++slot;
  used[as_size(slot % interval)] = 1;
  return slot;
}

void place_like_1f1b(BuildingBlock& block) {
  block.splits_backward = false;
  std::vector<std::vector<char>> used(as_size(block.ranks), std::vector<char>(as_size(block.interval)));
  int slot = 0;
  for (BlockStage& stage : block.stages) {
    stage.forward = next_of_phase(slot, stage.rank.value(), used[stage.rank.index()]);
    slot = stage.forward + 1;
  }
  for (auto stage = block.stages.rbegin(); stage != block.stages.rend(); ++stage) {
    stage->backward = next_of_phase(slot, stage->rank.value() + 1, used[stage->rank.index()]);
    slot = stage->backward + block.backward_slots();
  }
}

void read_offsets(const ScheduleParameters& parameters, int chunks, ReadBlock& read) {
  const std::optional<std::string> text = setting(parameters, "offsets");
  if (!text) {
    if (parameters.settings.contains("interval")) read.complain("an interval needs offsets");
    if (read.complaints.empty()) place_like_1f1b(read.block);
    return;
  }
  const auto slots = read_block_slots(*text, {.p = parameters.ranks, .v = chunks});
  if (!slots) return read.complain("offsets", slots.error());
  read_slots(*slots, chunks, read);
}

ReadBlock read_block(const ScheduleParameters& parameters) {
  const int chunks = parameters.chunks.value_or(1);
  ReadBlock read{.block = {.ranks = parameters.ranks, .stages = {}}, .complaints = {}};
  read.complaints += refused_word(parameters, "reorder", kReorderings);
  read_placement(parameters, chunks, read);
  read_interval(parameters, chunks, read);
  read_offsets(parameters, chunks, read);
  if (read.complaints.empty()) read.complaints = broken_rules(read.block);
  if (parameters.microbatches > kMaxSlots / read.block.interval) {
    read.complain("interval times microbatches must be at most 2^30 slots");
  }
  return read;
}

std::string refusal(const ScheduleParameters& parameters) { return read_block(parameters).complaints; }

Reordering reordering_of(const ScheduleParameters& parameters) {
  const std::optional<std::string> word = setting(parameters, "reorder");
  if (word == "none") return Reordering::none;
  return word == "peak" ? Reordering::peak : Reordering::ranks;
}

Expected<Schedule> generate_custom(const ScheduleParameters& parameters) {
  return repeat_block(std::string(kName), {.block = read_block(parameters).block,
                                           .microbatches = parameters.microbatches,
                                           .reordering = reordering_of(parameters)});
}

/// Of the block of 1F1B: where another one's warm-up ends depends on its slots.
Repetitions repetitions(const ScheduleParameters& parameters) {
  if (parameters.chunks.value_or(1) > 1) return {};
  return repeats_from_the_first(parameters);
}

}  // namespace

ScheduleInfo building_block() {
  return {
      .name = kName,
      .summary = "a building block that you give, repeated, reordered and squeezed",
      .paper = kControllableMemory,
      .placement = "a chain, a loop or a V",
      .constraints = "any ranks, microbatches and chunks; a block that can be repeated",
      .max_ranks = 1024,
      .max_chunks = kMaxChunks,
      .settings = kSettings,
      .refusal = refusal,
      .generate = generate_custom,
      .repetitions = repetitions,
      .forms = {},
  };
}

}  // namespace ppsim::schedules::catalogue
