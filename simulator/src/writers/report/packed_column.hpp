#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ppsim::simulator {

/// Whole numbers as the report's page holds them: zigzag varints, of which what repeats is written once, in
/// base64.
///
/// Schedules repeat themselves, so a column of differences takes a byte for several numbers.
class PackedColumn {
 public:
  void add(std::int64_t value);
  [[nodiscard]] std::string text() const;

 private:
  std::string bytes_;
};

/// Varints of (literals, the literals, length of a match, its distance), up to a match of length 0; before
/// them the length of the whole.
[[nodiscard]] std::string without_repeats(std::string_view bytes);
[[nodiscard]] std::string base64(std::string_view bytes);

}  // namespace ppsim::simulator
