#pragma once

#include <cstdint>
#include <vector>

#include "limits.hpp"
#include "ppsim/core/ir/units.hpp"
#include "rank_clocks.hpp"

namespace ppsim::verifier {

/// A clock that owns its counts.
using Clock = std::vector<std::int32_t>;

/// When a tensor is born: as soon as one of several sets of completions has happened, each what one possible
/// first writer waits for.
struct Birth {
  Clock after;
  InstructionId writer;  ///< invalid: exists from the start
};

/// A tensor of non-zero size in terms of the elementary completions of its rank.
struct Lifetime {
  std::uint32_t tensor = 0;  ///< of the table
  Bytes bytes = 0;
  std::vector<Birth> births;  ///< at least one; no one's clock within another's
  std::vector<Clock>
      deaths;  ///< free when all have happened; none: never free; no one within another's clock

  [[nodiscard]] bool is_live(ClockView moment) const;
};

/// The lifetimes of the tensors of the rank of the clocks. Errors: throws LimitReached.
[[nodiscard]] std::vector<Lifetime> lifetimes_of(const AnalyzedProgram& analyzed,
                                                 const std::vector<Bytes>& sizes, const RankClocks& clocks,
                                                 const Limits& limits);

}  // namespace ppsim::verifier
