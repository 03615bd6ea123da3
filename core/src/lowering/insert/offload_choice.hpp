#pragma once

#include <vector>

#include "lowering/cell_rows.hpp"
#include "ppsim/core/lowering/memory_saving.hpp"

namespace ppsim::lowering {

/// Activations that wait for their backward: the places of F and of the B or I in a row.
struct Wait {
  Action forward;
  std::size_t from = 0;
  std::size_t until = 0;
};

/// The activations that a rank offloads, in the order of its F: activations of the chosen stages whose
/// backward is not the next computation, that no R makes again and that no other rank holds. Of less than all
/// of them, those of the stages that wait longest (in cells of the row, on average), and of the last of these
/// stages microbatches evenly spread.
[[nodiscard]] std::vector<Wait> offloaded_waits(const Offload& offload, std::span<const Cell> row);

}  // namespace ppsim::lowering
