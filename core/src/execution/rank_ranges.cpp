#include "ppsim/core/execution/rank_ranges.hpp"

#include <algorithm>
#include <thread>

namespace ppsim {

std::vector<RankRange> rank_ranges(const Program& program) {
  constexpr std::size_t kWorthAThread = 50'000;  // instructions
  const auto ranks = static_cast<std::size_t>(program.pipeline().ranks());
  const std::size_t most = std::min<std::size_t>(ranks, std::thread::hardware_concurrency());
  const std::size_t count = std::max<std::size_t>(1, std::min(most, program.size() / kWorthAThread));
  std::vector<RankRange> ranges;
  for (std::size_t i = 0; i < count; ++i) {
    ranges.push_back({RankId(static_cast<std::int32_t>(ranks * i / count)),
                      RankId(static_cast<std::int32_t>(ranks * (i + 1) / count))});
  }
  return ranges;
}

}  // namespace ppsim
