#pragma once

#include <optional>
#include <string_view>

#include "io/action_scan.hpp"
#include "ppsim/core/ir/schedule.hpp"

namespace ppsim {

/// The rows of a file whose cells are all passes, and the pipeline that they imply.
struct PlainRows {
  IdVector<RankId, std::vector<Cell>> rows;
  Pipeline pipeline;
};

/// Reads such a file, as those of any size are, without a cell for each of its actions. Nothing where it is
/// another, or where anything is wrong.
[[nodiscard]] std::optional<PlainRows> plain_rows(std::string_view text, const Alphabet& alphabet);

}  // namespace ppsim
