#include "ppsim/planner/memory/allocator_peaks.hpp"

#include <algorithm>
#include <vector>

#include "ppsim/core/execution/tensor_life.hpp"
#include "ppsim/planner/memory/caching_allocator.hpp"

namespace ppsim::planner {
namespace {

/// A tensor is allocated or freed.
struct BlockChange {
  Instant at;
  bool allocates = false;
  std::size_t tensor = 0;
  /// At one instant frees come first, then tensors as the table has them.
  friend auto operator<=>(const BlockChange&, const BlockChange&) = default;
};

AllocatorPeak peak_after(const std::vector<BlockChange>& changes, const std::vector<Bytes>& sizes,
                         std::vector<Bytes>& addresses) {
  CachingAllocator allocator;
  AllocatorPeak peak;
  for (const BlockChange& change : changes) {
    Bytes& address = addresses[change.tensor];
    if (change.allocates) {
      address = allocator.allocate(sizes[change.tensor]);
    } else {
      allocator.release(address);
    }
    peak.allocated = std::max(peak.allocated, allocator.allocated());
  }
  peak.reserved = allocator.reserved();
  return peak;
}

}  // namespace

IdVector<RankId, AllocatorPeak> allocator_peaks(const SimulatedStep& step) {
  const auto& [table, sizes] = step.tensors;
  IdVector<RankId, std::vector<BlockChange>> changes(step.metrics.ranks.size(), {});
  for (std::size_t i = 0; i < table.tensors.size(); ++i) {
    const Tensor& tensor = table.tensors[i];
    const Instant from = allocation(tensor, step.trace, table);
    if (sizes[i] == 0 || !happened(from)) continue;
    const Instant begin = tensor.from_start ? Instant{.time = -1} : from;  // before all else
    changes[tensor.rank].push_back({begin, true, i});
    const Instant to = release(tensor, step.trace, table);
    if (happened(to)) changes[tensor.rank].push_back({to, false, i});
  }
  std::vector<Bytes> addresses(sizes.size(), 0);
  IdVector<RankId, AllocatorPeak> peaks;
  for (std::vector<BlockChange>& of_rank : changes) {
    std::ranges::sort(of_rank);
    peaks.push_back(peak_after(of_rank, sizes, addresses));
  }
  return peaks;
}

}  // namespace ppsim::planner
