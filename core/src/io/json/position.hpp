#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ppsim {

/// Keys and indexes that lead from the root of a JSON text to a value.
using JsonPath = std::vector<std::string>;

/// "/rows/1/7".
[[nodiscard]] std::string pointer_text(const JsonPath& path);

/// Offset of a value in a text, or of the innermost value on the way to it that exists.
/// Requires: `text` is valid JSON.
[[nodiscard]] std::size_t locate(std::string_view text, const JsonPath& path);

/// A key that occurs twice in one object.
struct DuplicateKey {
  std::string key;
  std::size_t offset = 0;  ///< of its second occurrence
};
/// Requires: `text` is valid JSON.
[[nodiscard]] std::optional<DuplicateKey> find_duplicate_key(std::string_view text);

/// Offset of the first value inside more than `limit` objects and arrays.
/// Requires: `text` is valid JSON.
[[nodiscard]] std::optional<std::size_t> find_nested_deeper(std::string_view text, std::size_t limit);

/// Line and character of an offset, 1-based.
struct TextPosition {
  int row = 1;
  int column = 1;
};
[[nodiscard]] TextPosition position_of(std::string_view text, std::size_t offset);

}  // namespace ppsim
