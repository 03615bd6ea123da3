#pragma once

#include <algorithm>

#include "ppsim/core/ir/ids.hpp"

namespace ppsim {

/// Calls advance(rank) until it says of every rank that the rank cannot go on: a few ranks that follow each
/// other take turns until all of them wait for others, then the next few. So what they read and write stays
/// close, which of all ranks of a large Program would come from memory at every turn. Who waits at the edge
/// of a window is in the middle of another one next.
template <class Advance>
void run_in_windows(int ranks, const Advance& advance) {
  constexpr int kWindow = 128;  // ranks
  const auto run_window = [&](int first, int last) {
    bool has_moved = false;
    for (bool moves = true; moves; has_moved = has_moved || moves) {
      moves = false;
      for (int rank = first; rank < last; ++rank) moves = advance(RankId(rank)) || moves;
    }
    return has_moved;
  };
  int shift = 0;
  for (bool moves = true; moves; shift = kWindow / 2 - shift) {
    moves = false;
    for (int last = kWindow - shift; last - kWindow < ranks; last += kWindow)
      moves = run_window(std::max(0, last - kWindow), std::min(last, ranks)) || moves;
  }
}

}  // namespace ppsim
