#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ppsim/schedules/registry.hpp"

namespace ppsim {

/// A whole number and nothing else.
[[nodiscard]] std::optional<int> parse_count(std::string_view text);

/// The value of a setting, or nothing where it is not given.
[[nodiscard]] std::optional<std::string> setting(const ScheduleParameters& parameters,
                                                 const std::string& name);

/// "interleaved-1f1b: group must be ..., found 3".
[[nodiscard]] tl::unexpected<Error> bad_setting(std::string_view schedule, std::string_view name,
                                                const std::string& expected, const std::string& found);

}  // namespace ppsim
