#include "ppsim/planner/memory/peak_contents.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "ppsim/core/lowering/lowering.hpp"
#include "support/closed_forms.hpp"

namespace ppsim::test {
namespace {

SimulatedStep contents_evaluated(std::string_view name, const SizeTable& sizes) {
  ScheduleParameters parameters{.ranks = 4, .microbatches = 8};
  if (name == "interleaved-1f1b") parameters.chunks = 2;
  CostBinding costs;
  costs.has_sizes = true;
  costs.tables.costs = unit_cost_table({});
  costs.tables.sizes = sizes;
  return evaluate(std::string(name), lower(generated(name, parameters), {}).value(), std::move(costs))
      .value();
}

SizeTable sizes_of_stages() {
  SizeTable sizes;
  sizes.set({.kind = TensorKind::parameters}, 1000);
  sizes.set({.kind = TensorKind::boundary_input}, 3);
  sizes.set({.kind = TensorKind::boundary_output}, 5);
  sizes.set({.kind = TensorKind::saved_for_weight}, 70);
  sizes.set({.kind = TensorKind::incoming_gradient}, 11);
  sizes.set({.kind = TensorKind::workspace}, 13);
  return sizes;
}

TEST(PeakContents, AddUpToThePeakLargestFirst) {
  for (const char* name : {"gpipe", "interleaved-1f1b", "zb-h1"}) {
    const SimulatedStep step = contents_evaluated(name, sizes_of_stages());
    const auto contents = peak_contents(step);
    for (int r = 0; r < 4; ++r) {
      Bytes sum = 0;
      for (const KindBytes& one : contents[RankId(r)]) {
        EXPECT_GT(one.bytes, 0);
        sum += one.bytes;
      }
      EXPECT_EQ(sum, step.metrics.ranks[RankId(r)].peak_bytes) << name << ", rank " << r;
      EXPECT_TRUE(std::ranges::is_sorted(contents[RankId(r)], std::ranges::greater(), &KindBytes::bytes));
    }
  }
}

/// All eight microbatches are alive when GPipe turns round.
TEST(PeakContents, AreTheTensorsThatAreAliveThen) {
  const auto contents = peak_contents(contents_evaluated("gpipe", sizes_of_stages()));
  EXPECT_EQ(contents[RankId(3)].front(), (KindBytes{TensorKind::parameters, 1000}));
  EXPECT_EQ(contents[RankId(3)][1], (KindBytes{TensorKind::saved_for_weight, 8 * 70}));
}

TEST(PeakContents, OfNoSizesAreNothing) {
  for (const auto& contents : peak_contents(contents_evaluated("gpipe", {}))) EXPECT_TRUE(contents.empty());
}

}  // namespace
}  // namespace ppsim::test
