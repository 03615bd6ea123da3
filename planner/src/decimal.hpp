#pragma once

#include <optional>
#include <string>

namespace ppsim {

/// A decimal number that uses up the whole text.
[[nodiscard]] std::optional<double> parse_decimal(const std::string& text);

}  // namespace ppsim
