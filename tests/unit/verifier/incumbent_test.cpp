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

/// F are the tasks 0 and 1 of the first rank and 6 and 7 of the last, then come I, then W: the last rank as
/// 1F1B, the first with both F ahead.
const TaskRows kRows = {{0, 1, 2, 4, 3, 5}, {6, 8, 10, 7, 9, 11}};
constexpr Nanoseconds kValue = 8 * kUnitTime;

TEST(Incumbent, TellsTheTrueTimeOfWhatItIsOffered) {
  const SynthesisRequest request = request_of(2);
  Incumbent incumbent(request);
  EXPECT_TRUE(incumbent.offer(kRows, {"a", {}}).empty());
  EXPECT_TRUE(incumbent.offer(kRows, {"b", kValue}).empty());
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
  EXPECT_THROW(incumbent.offer({{2, 0, 1, 3, 4, 5}, kRows[1]}, {"solver", {}}), CheckFailure);
  EXPECT_THROW(incumbent.offer({{0, 2, 4, 1, 3, 5}, {6, 7, 8, 10, 9, 11}}, {"solver", {}}), CheckFailure);
}

TEST(Incumbent, HasTheTasksOfItsSchedule) {
  const SynthesisRequest request = request_of(2);
  Incumbent incumbent(request);
  (void)incumbent.offer(kRows, {"a", {}});
  EXPECT_EQ(incumbent.rows(), kRows);
}

/// One byte for the activations of a microbatch, and a limit of bytes.
TEST(Incumbent, TellsByHowMuchTheWorstTimingIsAboveALimitInBytes) {
  SynthesisRequest request = request_of(0);
  request.bytes = ByteLimit{activation_size_table(10), 19};
  Incumbent incumbent(request);
  EXPECT_EQ(incumbent.offer(kRows, {"a", {}}), (std::vector<Bytes>{1, 0}));
  EXPECT_TRUE(incumbent.empty());
  request.bytes->per_rank = 20;
  EXPECT_TRUE(incumbent.offer(kRows, {"a", {}}).empty());
  EXPECT_EQ(incumbent.value(), kValue);
}

}  // namespace
}  // namespace ppsim::verifier::synthesis
