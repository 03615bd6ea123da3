#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ppsim {

/// The texts of some rows. Refers to where they were read.
using RowTexts = std::vector<std::vector<std::string_view>>;

/// A JSON text whose rows were taken out, because a value for each of their texts takes longer to make than
/// all the rest of the reading.
struct LiftedRows {
  std::string key;   ///< of the array of arrays of texts
  RowTexts rows;     ///< refers to the whole text
  std::string rest;  ///< the text with an empty row in the place of each
};

/// Takes out the array of arrays of texts that is the value of a key. Nothing where there is none, or
/// several, and where a row holds something else than texts in printable ASCII without escapes: such a file
/// is read value by value.
[[nodiscard]] std::optional<LiftedRows> lift_rows(std::string_view text);

}  // namespace ppsim
