#include "clocks.hpp"

#include <algorithm>
#include <limits>

namespace ppsim::planner {
namespace {

constexpr Nanoseconds kUnbounded = std::numeric_limits<Nanoseconds>::max();

/// At (i, j) the most that offset(i) may be above offset(j).
class Differences {
 public:
  Differences(int ranks, const std::vector<ClockBound>& bounds)
      : ranks_(as_size(ranks)), above_(ranks_ * ranks_, kUnbounded) {
    for (std::size_t r = 0; r < ranks_; ++r) at(r, r) = 0;
    for (const ClockBound& bound : bounds) {
      Nanoseconds& above = at(bound.earlier.index(), bound.later.index());
      above = std::min(above, bound.slack);
    }
    close();
  }

  Nanoseconds& at(std::size_t i, std::size_t j) { return above_[i * ranks_ + j]; }

  [[nodiscard]] bool possible() {
    for (std::size_t r = 0; r < ranks_; ++r) {
      if (at(r, r) < 0) return false;
    }
    return true;
  }

 private:
  /// Adds what follows over chains: shortest paths.
  void close() {
    for (std::size_t via = 0; via < ranks_; ++via) {
      for (std::size_t i = 0; i < ranks_; ++i) {
        if (at(i, via) == kUnbounded) continue;
        for (std::size_t j = 0; j < ranks_; ++j) {
          if (at(via, j) != kUnbounded) at(i, j) = std::min(at(i, j), at(i, via) + at(via, j));
        }
      }
    }
  }

  std::size_t ranks_;
  std::vector<Nanoseconds> above_;
};

}  // namespace

std::optional<IdVector<RankId, RankClock>> middle_offsets(int ranks, const std::vector<ClockBound>& bounds) {
  Differences differences(ranks, bounds);
  if (!differences.possible()) return std::nullopt;
  IdVector<RankId, RankClock> offsets;
  for (std::size_t r = 0; r < as_size(ranks); ++r) {
    const Nanoseconds above = differences.at(r, 0);
    const Nanoseconds below = differences.at(0, r);
    RankClock offset;
    if (above != kUnbounded && below != kUnbounded) {
      offset = {(above - below) / 2, (above + below + 1) / 2};
    } else if (above != kUnbounded) {
      offset.offset = above;
    } else if (below != kUnbounded) {
      offset.offset = -below;
    }
    offsets.push_back(offset);
  }
  return offsets;
}

}  // namespace ppsim::planner
