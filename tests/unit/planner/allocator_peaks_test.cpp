#include "ppsim/planner/memory/allocator_peaks.hpp"

#include <gtest/gtest.h>

#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/planner/memory/caching_allocator.hpp"
#include "support/closed_forms.hpp"

namespace ppsim::test {
namespace {

using planner::CachingAllocator;

constexpr Bytes kMiB = Bytes{1} << 20U;

TEST(CachingAllocator, RoundsAsPyTorchDoes) {
  const auto after = [](Bytes size) {
    CachingAllocator allocator;
    static_cast<void>(allocator.allocate(size));
    return std::pair(allocator.allocated(), allocator.reserved());
  };
  EXPECT_EQ(after(1), std::pair(Bytes{512}, 2 * kMiB));
  EXPECT_EQ(after(513), std::pair(Bytes{1024}, 2 * kMiB));
  EXPECT_EQ(after(kMiB), std::pair(kMiB, 2 * kMiB));
  EXPECT_EQ(after(kMiB + 1), std::pair(kMiB + 512, 20 * kMiB));
  EXPECT_EQ(after(10 * kMiB - 512), std::pair(10 * kMiB - 512, 20 * kMiB));
  EXPECT_EQ(after(10 * kMiB), std::pair(10 * kMiB, 10 * kMiB));
  // The rest of a large segment is split off only above 1 MiB.
  EXPECT_EQ(after(10 * kMiB + 1), std::pair(10 * kMiB + 512, 12 * kMiB));
  EXPECT_EQ(after(11 * kMiB), std::pair(12 * kMiB, 12 * kMiB));
}

TEST(CachingAllocator, TakesTheSmallestBlockThatSuffices) {
  CachingAllocator allocator;
  const Bytes large = allocator.allocate(40 * kMiB);
  const Bytes medium = allocator.allocate(20 * kMiB);
  allocator.release(large);
  allocator.release(medium);
  EXPECT_EQ(allocator.allocate(20 * kMiB), medium);
  EXPECT_EQ(allocator.allocate(30 * kMiB), large);
  EXPECT_EQ(allocator.allocate(10 * kMiB), large + 30 * kMiB) << "what was split off";
  EXPECT_EQ(allocator.reserved(), 60 * kMiB);
}

TEST(CachingAllocator, FreeNeighboursOfASegmentBecomeOne) {
  CachingAllocator allocator;
  const Bytes whole = allocator.allocate(60 * kMiB);
  const Bytes other = allocator.allocate(20 * kMiB);
  allocator.release(whole);
  const Bytes first = allocator.allocate(20 * kMiB);
  const Bytes second = allocator.allocate(20 * kMiB);
  allocator.release(first);
  allocator.release(second);
  allocator.release(other);
  EXPECT_EQ(allocator.allocate(60 * kMiB), whole);
  EXPECT_EQ(allocator.allocate(80 * kMiB), 80 * kMiB) << "segments do not become one";
  EXPECT_EQ(allocator.reserved(), 160 * kMiB);
}

SimulatedStep evaluated(std::string_view name, const SizeTable& sizes) {
  ScheduleParameters parameters{.ranks = 4, .microbatches = 8};
  if (name == "interleaved-1f1b") parameters.chunks = 2;
  CostBinding costs;
  costs.has_sizes = true;
  costs.tables.costs = unit_cost_table({});
  costs.tables.sizes = sizes;
  return evaluate(std::string(name), lower(generated(name, parameters), {}).value(), std::move(costs))
      .value();
}

TEST(AllocatorPeaks, AreNoLessThanTheTensors) {
  SizeTable sizes;
  sizes.set({.kind = TensorKind::parameters}, 100 * kMiB + 1);
  sizes.set({.kind = TensorKind::boundary_input}, 3000);
  sizes.set({.kind = TensorKind::saved_for_weight}, 7 * kMiB);
  sizes.set({.kind = TensorKind::workspace}, 30 * kMiB);
  for (const char* name : {"gpipe", "interleaved-1f1b", "zb-h1"}) {
    const SimulatedStep step = evaluated(name, sizes);
    const auto peaks = allocator_peaks(step);
    for (int r = 0; r < 4; ++r) {
      EXPECT_GE(peaks[RankId(r)].allocated, step.metrics.ranks[RankId(r)].peak_bytes) << name;
      EXPECT_GE(peaks[RankId(r)].reserved, peaks[RankId(r)].allocated) << name;
    }
  }
}

/// All eight microbatches are alive when GPipe turns round, two in a segment.
TEST(AllocatorPeaks, OfGPipeAreThoseOfItsActivations) {
  SizeTable sizes;
  sizes.set({.kind = TensorKind::saved_for_weight}, 7 * kMiB);
  for (const AllocatorPeak& peak : allocator_peaks(evaluated("gpipe", sizes)))
    EXPECT_EQ(peak, (AllocatorPeak{8 * 7 * kMiB, 4 * 20 * kMiB}));
}

TEST(AllocatorPeaks, OfNoSizesAreNothing) {
  for (const AllocatorPeak& peak : allocator_peaks(evaluated("gpipe", {}))) EXPECT_EQ(peak, AllocatorPeak());
}

}  // namespace
}  // namespace ppsim::test
