#pragma once

#include <compare>
#include <cstdint>

namespace ppsim::lowering {

/// `later` starts after `earlier` is complete; both name lines or cells of one row.
struct AfterEdge {
  std::int32_t later;
  std::int32_t earlier;
  friend auto operator<=>(const AfterEdge&, const AfterEdge&) = default;
};

}  // namespace ppsim::lowering
