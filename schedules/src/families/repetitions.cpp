#include "repetitions.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace ppsim::schedules {
namespace {

constexpr int kMaxComputedRanks = 8;
constexpr std::int64_t kMaxFrom = 1 << 24;

/// Settings that say how many microbatches stand together, or are in flight.
constexpr std::array<std::string_view, 8> kPaces = {"group",     "macrobatch", "memory_limit", "weight_share",
                                                    "placement", "interval",   "offsets",      "reorder"};

bool has_pace(const ScheduleParameters& parameters) {
  return std::ranges::any_of(
      kPaces, [&](std::string_view name) { return parameters.settings.contains(std::string(name)); });
}

/// Lists repeat from `from` on, and queues by themselves too.
Repetitions alike(std::int64_t from, int period) {
  const Repetition repetition{static_cast<int>(std::min(from, kMaxFrom)), period};
  return {.lists = repetition, .queues = repetition};
}

/// Queues repeat from the first microbatch on.
Repetitions with_queues_from_one(std::int64_t from) {
  Repetitions repetitions = alike(from, 1);
  repetitions.queues = Repetition{};
  return repetitions;
}

}  // namespace

Repetitions repeats_from_the_first(const ScheduleParameters& parameters) {
  if (has_pace(parameters)) return {};
  return with_queues_from_one(std::int64_t{2} * parameters.ranks + 4);
}

Repetitions repeats_after_two_rounds(const ScheduleParameters& parameters) {
  if (has_pace(parameters)) return {};
  return with_queues_from_one(std::int64_t{6} * parameters.ranks + 4);
}

Repetitions repeats_once_filled(const ScheduleParameters& parameters) {
  if (has_pace(parameters)) return {};
  return alike(std::int64_t{6} * parameters.ranks + 4, 1);
}

Repetitions repeats_by_group(const ScheduleParameters& parameters) {
  if (has_pace(parameters)) return {};
  const std::int64_t p = parameters.ranks;
  return alike(p * p + 10 * p + 8, 2 * parameters.ranks);
}

Repetitions repeats_at_unit_costs(const ScheduleParameters& parameters) {
  if (has_pace(parameters) || parameters.costs || parameters.ranks > kMaxComputedRanks) return {};
  return alike(std::int64_t{16} * parameters.ranks, 2 * parameters.ranks);
}

}  // namespace ppsim::schedules
