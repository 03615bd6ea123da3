#include "ppsim/core/execution/rank_ranges.hpp"

#include <algorithm>
#include <atomic>
#include <thread>

namespace ppsim {
namespace {

std::atomic<std::size_t> cut_for_tests{0};

std::size_t range_count(std::size_t instructions) {
  constexpr std::size_t kWorthAThread = 50'000;  // instructions
  if (const std::size_t count = cut_for_tests.load(); count > 0) return count;
  // Asked once: for each answer the system reads a file.
  static const std::size_t processors = std::thread::hardware_concurrency();
  return std::min(processors, instructions / kWorthAThread);
}

}  // namespace

void cut_ranks_into(std::size_t count) { cut_for_tests = count; }

std::vector<RankRange> rank_ranges(int ranks, std::size_t instructions) {
  const auto all = as_size(ranks);
  const std::size_t count = std::max<std::size_t>(1, std::min(all, range_count(instructions)));
  std::vector<RankRange> ranges;
  for (std::size_t i = 0; i < count; ++i) {
    ranges.push_back({RankId(static_cast<std::int32_t>(all * i / count)),
                      RankId(static_cast<std::int32_t>(all * (i + 1) / count))});
  }
  return ranges;
}

std::vector<RankRange> rank_ranges(const Program& program) {
  return rank_ranges(program.pipeline().ranks(), program.size());
}

}  // namespace ppsim
