#pragma once

#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "slot_formula.hpp"

namespace ppsim::schedules {

/// The slots of one kind of action on one chunk, rank by rank.
using RankSlots = std::vector<int>;

/// By kind (F, B, I or W) and chunk.
using BlockSlots = std::map<std::pair<char, int>, RankSlots>;

/// Reads entries like `F0: 2i; F1: 3p - i - 2; W0: [3 4 6]`, separated by semicolons: a kind, the chunk
/// (which may be left out where there is one), and either a formula (see read_formula) or the slots of the
/// ranks in brackets. `names` says the ranks and the chunks. Errors: anything else, an entry given twice, a
/// chunk that there is not, a list that is not as long as the ranks.
[[nodiscard]] tl::expected<BlockSlots, TextError> read_block_slots(std::string_view text,
                                                                   const FormulaNames& names);

}  // namespace ppsim::schedules
