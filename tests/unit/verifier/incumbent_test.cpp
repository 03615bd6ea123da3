#include "synthesis/incumbent.hpp"

#include <gtest/gtest.h>

#include "ppsim/core/ir/check.hpp"

namespace ppsim::verifier::synthesis {
namespace {

SynthesisRequest request_of(int limit) {
  SynthesisRequest request;
  request.ranks = 2;
  request.microbatches = 2;
  request.activation_limit = limit;
  request.costs = unit_cost_table({});
  return request;
}

/// F, I, W of two microbatches: the last rank as 1F1B, the first with both F ahead.
const PhaseRows kRows = {{0, 0, 1, 2, 1, 2}, {0, 1, 2, 0, 1, 2}};
constexpr Nanoseconds kValue = 8 * kUnitTime;

TEST(Incumbent, TellsTheTrueTimeOfWhatItIsOffered) {
  const SynthesisRequest request = request_of(2);
  Incumbent incumbent(request);
  EXPECT_EQ(incumbent.offer(kRows, {"a", {}}), kValue);
  EXPECT_EQ(incumbent.offer(kRows, {"b", kValue}), kValue);
  EXPECT_EQ(incumbent.value(), kValue);
  EXPECT_EQ(incumbent.method(), "a") << "no better";
}

TEST(Incumbent, BelievesNoStartTimesThatDoNotHold) {
  const SynthesisRequest request = request_of(2);
  Incumbent incumbent(request);
  EXPECT_THROW(incumbent.offer(kRows, {"solver", kValue - 1}), CheckFailure);
  EXPECT_TRUE(incumbent.empty());
}

TEST(Incumbent, BelievesNoRowsOverTheLimit) {
  const SynthesisRequest request = request_of(1);
  Incumbent incumbent(request);
  EXPECT_THROW(incumbent.offer(kRows, {"solver", {}}), CheckFailure);
  EXPECT_TRUE(incumbent.empty());

  const SynthesisRequest roomy = request_of(2);
  Incumbent other(roomy);
  other.offer(kRows, {"a", {}});
  incumbent.offer_known(other.schedule());
  EXPECT_TRUE(incumbent.empty());
}

TEST(Incumbent, BelievesNoRowsThatWaitForEachOther) {
  const SynthesisRequest request = request_of(2);
  Incumbent incumbent(request);
  EXPECT_THROW(incumbent.offer({{1, 0, 0, 1, 2, 2}, {0, 1, 2, 0, 1, 2}}, {"solver", {}}), CheckFailure);
  EXPECT_THROW(incumbent.offer({{0, 1, 2, 0, 1, 2}, {0, 0, 1, 2, 1, 2}}, {"solver", {}}), CheckFailure);
}

}  // namespace
}  // namespace ppsim::verifier::synthesis
