// Updates between microbatches come once a period: a proof for every number of microbatches has to tell their
// order from few of them.

#include <gtest/gtest.h>

#include "ppsim/core/ir/transports.hpp"
#include "ppsim/verifier/parameterized/all_microbatches.hpp"
#include "support/generated.hpp"

namespace ppsim::test {
namespace {

bool is_proved(int ranks, std::string_view on) {
  const ScheduleParameters parameters{.ranks = ranks};
  AllMicrobatchesOptions options;
  options.properties = {Property::deadlock_free};
  options.capabilities = transport(on).value();
  options.repetitions = repetitions_of("pipedream-2bw", parameters);
  return verify_all_microbatches(programs_of("pipedream-2bw", parameters, {}), options)
      .value()
      .proved(Property::deadlock_free);
}

TEST(UpdatesForAll, PipedreamWithTwoBuffersIsProvedUnderOrderedLaunches) {
  for (const int ranks : {2, 3, 4, 5, 6}) EXPECT_TRUE(is_proved(ranks, "any")) << ranks;
  for (const char* on : {"in-process", "nccl", "nccl-one-queue"}) EXPECT_TRUE(is_proved(4, on)) << on;
}

}  // namespace
}  // namespace ppsim::test
