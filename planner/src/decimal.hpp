#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ppsim::planner {

/// A decimal number that uses up the whole text.
[[nodiscard]] std::optional<double> parse_decimal(const std::string& text);

/// Items between separators, also empty ones.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);

/// The largest cost in units; keeps sums of many actions within 64-bit nanoseconds.
inline constexpr double kLargestUnit = 1e9;

}  // namespace ppsim::planner
