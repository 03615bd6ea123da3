#pragma once

#include <cstddef>
#include <future>
#include <system_error>
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
[[nodiscard]] std::vector<RankRange> rank_ranges(int ranks, std::size_t instructions);
[[nodiscard]] std::vector<RankRange> rank_ranges(const Program& program);

/// For tests: from now on rank_ranges() cuts into `count` ranges, or as many as there are ranks, whatever the
/// processors and the work. 0: as usual.
void cut_ranks_into(std::size_t count);

/// Starts `work` on a thread of its own; if the system refuses one, get() of the future runs it.
template <class Work>
auto on_a_thread(const Work& work) {
  try {
    return std::async(std::launch::async, work);
  } catch (const std::system_error&) {
    return std::async(std::launch::deferred, work);
  }
}

/// The results of `work` for each of 0 to count - 1, computed at the same time.
/// Order: ascending, so that who puts the parts together has the same on any number of processors.
/// Requires: a count of at least 1.
/// Errors: what `work` throws of the first that does.
template <class Work>
auto all_at_once(std::size_t count, const Work& work) {
  using Part = std::invoke_result_t<Work, std::size_t>;
  std::vector<std::future<Part>> others;
  for (std::size_t i = 1; i < count; ++i) others.push_back(on_a_thread([&work, i] { return work(i); }));
  if constexpr (std::is_void_v<Part>) {
    work(0);
    for (std::future<void>& other : others) other.get();
  } else {
    std::vector<Part> parts;
    parts.reserve(count);  // a part may be large, and not every one moves where a vector grows
    parts.push_back(work(0));
    for (std::future<Part>& other : others) parts.push_back(other.get());
    return parts;
  }
}

/// The results of `work` for each range, computed at the same time, in the order of the ranks.
template <class Work>
[[nodiscard]] auto by_rank_ranges(const Program& program, const Work& work) {
  const std::vector<RankRange> ranges = rank_ranges(program);
  return all_at_once(ranges.size(), [&](std::size_t i) { return work(ranges[i]); });
}

}  // namespace ppsim
