#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ppsim/core/ir/error.hpp"

namespace ppsim {

/// ` (did you mean "x"?)` for the most similar name, or nothing when none is similar.
[[nodiscard]] std::string suggestion(std::string_view name, std::span<const std::string_view> known);

/// The names of what has some, which must outlive them.
[[nodiscard]] std::vector<std::string_view> names_in(const auto& items) {
  std::vector<std::string_view> names;
  for (const auto& item : items) names.push_back(item.name);
  return names;
}

/// The keys of pairs, which must outlive them.
[[nodiscard]] std::vector<std::string_view> keys_in(const auto& pairs) {
  std::vector<std::string_view> keys;
  for (const auto& [key, value] : pairs) keys.push_back(key);
  return keys;
}

/// "a, b, c".
[[nodiscard]] std::string joined(const auto& names, std::string_view separator = ", ") {
  std::string text;
  for (const std::string_view name : names) text.append(text.empty() ? "" : separator).append(name);
  return text;
}

/// bad_argument for an unknown name: `message` with a suggestion, and the known names as what was expected,
/// after the text `before`.
[[nodiscard]] Error unknown_name(const std::string& message, std::string_view name,
                                 std::span<const std::string_view> known,
                                 const std::string& before = "one of ");

/// The enumerator of this name; `names` are those of all, in their order.
/// Errors: bad_argument naming `what`.
template <class Enum>
[[nodiscard]] Expected<Enum> enumerator_named(std::string_view what, std::span<const std::string_view> names,
                                              std::string_view name) {
  const auto found = std::ranges::find(names, name);
  if (found != names.end()) return static_cast<Enum>(found - names.begin());
  return tl::unexpected(unknown_name("unknown " + std::string(what), name, names));
}

}  // namespace ppsim
