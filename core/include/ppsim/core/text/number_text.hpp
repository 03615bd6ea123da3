#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ppsim {

/// Removes the leading number from a text and returns it; nothing if the text does not begin with one.
template <class Number>
[[nodiscard]] std::optional<Number> take_leading_number(std::string_view& text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

/// The number that a text is, and nothing else.
template <class Number>
[[nodiscard]] std::optional<Number> parse_number(std::string_view text) {
  const auto number = take_leading_number<Number>(text);
  return text.empty() ? number : std::nullopt;
}

/// The same of a number that counts: one of at least 0.
[[nodiscard]] inline std::optional<int> parse_count(std::string_view text) {
  const auto count = parse_number<int>(text);
  return count && *count >= 0 ? count : std::nullopt;
}

/// "1 rank", "2 ranks", "2 microbatches".
[[nodiscard]] inline std::string with_plural(std::int64_t count, std::string_view what) {
  const char* const plural = what.ends_with("ch") ? "es" : "s";
  return std::to_string(count) + ' ' + std::string(what) + (count == 1 ? "" : plural);
}

}  // namespace ppsim
