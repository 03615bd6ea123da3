#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ppsim/schedules/registry.hpp"

namespace ppsim::schedules {

/// The value of a setting, or nothing where it is not given.
[[nodiscard]] std::optional<std::string> setting(const ScheduleParameters& parameters,
                                                 const std::string& name);

/// The number that a setting is; nothing where it is not given or no number.
[[nodiscard]] std::optional<int> count_setting(const ScheduleParameters& parameters, const std::string& name);

struct CountRange {
  int least = 1;
  int most = 1;
};
/// Why a setting is no whole number of the range ("group must be a whole number in [4, 8], found "3""), or
/// nothing where it is one or is not given. For ScheduleInfo::refusal.
[[nodiscard]] std::string refused_count(const ScheduleParameters& parameters, const std::string& name,
                                        CountRange range);

/// Why a setting is none of the words, likewise.
[[nodiscard]] std::string refused_word(const ScheduleParameters& parameters, const std::string& name,
                                       std::span<const std::string_view> words);

/// Why a count is odd where it must be even ("ranks must be even, found 3"), likewise.
[[nodiscard]] std::string refused_odd(const std::string& name, int count);

/// Why a count is too small ("microbatches must be at least 8, found 7"), likewise.
[[nodiscard]] std::string refused_below(const std::string& name, int count, int least);

}  // namespace ppsim::schedules
