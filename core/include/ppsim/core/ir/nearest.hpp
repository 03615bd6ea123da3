#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ppsim {

/// ` (did you mean "x"?)` for the most similar name, or nothing when none is similar.
[[nodiscard]] std::string suggestion(std::string_view name, std::span<const std::string_view> known);

/// "a, b, c".
[[nodiscard]] std::string joined(std::span<const std::string_view> names);

}  // namespace ppsim
