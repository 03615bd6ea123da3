#pragma once

#include <future>
#include <type_traits>
#include <vector>

#include "ppsim/core/ir/program.hpp"

namespace ppsim {

/// Some ranks that follow each other.
struct RankRange {
  RankId first;
  RankId last;  ///< one past the end
};

/// All ranks, cut into one range for each processor where there is enough to do; else one range.
[[nodiscard]] std::vector<RankRange> rank_ranges(const Program& program);

/// What `work` makes of each range, all at the same time.
/// Order: that of the ranks, so that who puts the parts together has the same on any number of processors.
/// Errors: what `work` throws of the first range that does.
template <class Work>
[[nodiscard]] auto by_rank_ranges(const Program& program, const Work& work) {
  const std::vector<RankRange> ranges = rank_ranges(program);
  std::vector<std::future<std::invoke_result_t<Work, RankRange>>> others;
  for (std::size_t i = 1; i < ranges.size(); ++i)
    others.push_back(std::async(std::launch::async, [&work, range = ranges[i]] { return work(range); }));
  std::vector<std::invoke_result_t<Work, RankRange>> parts;
  parts.push_back(work(ranges.front()));
  for (auto& other : others) parts.push_back(other.get());
  return parts;
}

}  // namespace ppsim
