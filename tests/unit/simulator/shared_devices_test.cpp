// Ranks that share a device, in closed form.

#include "ppsim/simulator/effects/shared_devices.hpp"

#include <gtest/gtest.h>

#include "ppsim/core/ir/transports.hpp"
#include "support/hand_program.hpp"
#include "support/programs.hpp"
#include "support/timing.hpp"

namespace ppsim::test::shared_devices_test {
namespace {

using Texts = std::vector<std::string>;
using enum OpKind;

/// A microbatch for each rank goes down a chain; transfers take no time.
Program forwards(int ranks) {
  std::vector<std::vector<std::string>> rows;
  std::vector<Communicator> channels;
  for (int r = 0; r < ranks; ++r) {
    const std::string stage = std::to_string(r);
    std::vector<std::string>& row = rows.emplace_back();
    for (int m = 0; m < ranks; ++m) {
      const std::string mb = std::to_string(m);
      if (r > 0) row.push_back(stage + "RECV_F" + mb + "@" + std::to_string(r - 1));
      row.push_back(stage + "F" + mb);
      if (r < ranks - 1) row.push_back(stage + "SEND_F" + mb + "@" + stage);
    }
    if (r < ranks - 1) channels.push_back(communicators({{r, r + 1}})[0]);
  }
  return HandProgram{{.ranks = ranks, .stages = ranks, .microbatches = ranks}, channels, rows}.build();
}

/// "0-60" of each forward of a rank.
Texts times(const Program& program, const TimedTrace& trace, int rank) {
  Texts texts;
  for (InstructionId id = program.first(RankId(rank)); id < program.last(RankId(rank)); id = next(id)) {
    const Span& span = trace.spans[id];
    if (program.actions(id)[0].kind == forward)
      texts.push_back(std::to_string(span.start.time) + "-" + std::to_string(span.end.time));
  }
  return texts;
}

TimedTrace run(const Program& program, const CostTable& costs, const SharedDevices& devices) {
  return simulate_on_devices({program, rendezvous()}, {costs, CostTable()}, devices).value().value();
}

SharedDevices slowed(int ranks, std::int64_t percent) {
  return {.ranks = ranks, .slowdowns = {{forward, percent * SharedDevices::kWhole / 100}}};
}

TEST(SharedDevices, TwoRanksSlowEachOtherDownUntilOneEnds) {
  const Program program = forwards(2);
  const TimedTrace trace = run(program, cost_table({{forward, 0, 60}, {forward, 1, 100}}), slowed(2, 50));
  // At 2/3 of the speed the second forward of rank 0 takes 90; rank 1 has 40 of 100 left then.
  EXPECT_EQ(times(program, trace, 0), (Texts{"0-60", "60-150"}));
  EXPECT_EQ(times(program, trace, 1), (Texts{"60-190", "190-290"}));
}

TEST(SharedDevices, ThreeRanksGoAtAThirdOfTheSpeed) {
  const Program program = forwards(3);
  const TimedTrace trace = run(program, cost_table({{forward, -1, 60}}), slowed(3, 100));
  // One computes alone, then two, three, two and one.
  EXPECT_EQ(times(program, trace, 0), (Texts{"0-60", "60-180", "180-360"}));
  EXPECT_EQ(times(program, trace, 1), (Texts{"60-180", "180-360", "360-480"}));
  EXPECT_EQ(times(program, trace, 2), (Texts{"180-360", "360-480", "480-540"}));
}

TEST(SharedDevices, OnlyRanksOfOneDeviceMeet) {
  const Program program = forwards(3);
  const TimedTrace trace = run(program, cost_table({{forward, -1, 60}}), slowed(2, 100));
  EXPECT_EQ(times(program, trace, 0), (Texts{"0-60", "60-180", "180-300"}));
  EXPECT_EQ(times(program, trace, 1), (Texts{"60-180", "180-300", "300-360"}));
  EXPECT_EQ(times(program, trace, 2), (Texts{"180-240", "300-360", "360-420"}))
      << "alone on the second device";
}

TEST(SharedDevices, ThreeRanksOnTwoCores) {
  const Program program = forwards(3);
  SharedDevices devices = slowed(3, 50);
  devices.undisturbed = 1;
  // Two have a core each; three have 2/3 of one.
  const TimedTrace trace = run(program, cost_table({{forward, -1, 60}}), devices);
  EXPECT_EQ(times(program, trace, 0), (Texts{"0-60", "60-120", "120-210"}));
  EXPECT_EQ(times(program, trace, 1), (Texts{"60-120", "120-210", "210-270"}));
  EXPECT_EQ(times(program, trace, 2), (Texts{"120-210", "210-270", "270-330"}));
}

TEST(SharedDevices, AKindWithoutSlowdownIsAsFastAsAlone) {
  const Program program = forwards(3);
  const CostTable costs = cost_table({{forward, -1, 60}});
  const SharedDevices devices{.ranks = 3, .slowdowns = {{forward, 0}, {backward, SharedDevices::kWhole}}};
  EXPECT_EQ(run(program, costs, devices), run(program, costs, {}));
}

TEST(SharedDevices, TheSlowestAreThoseOfTransfersAndOtherRanksTogether) {
  const Program program =
      HandProgram{{.ranks = 2, .stages = 2, .microbatches = 2},
                  communicators({{0, 1}}),
                  {{"0F0", "0SEND_F0@0", "0F1", "0SEND_F1@0"}, {"1RECV_F0@0", "1F0", "1RECV_F1@0", "1F1"}}}
          .build();
  const CostTable costs = cost_table({{forward, -1, 600}, {send_forward, -1, 100}});
  const CostTable beside = cost_table({{forward, -1, 1200}, {send_forward, -1, 100}});
  const auto found =
      simulate_on_devices({program, transport("nccl").value()}, {costs, beside}, slowed(2, 50));
  const TimedTrace trace = found.value().value();
  // 0F1 goes at 1/2 beside the first transfer until 700, then at 2/3 beside 1F0: 550 of 600 are left, 825
  // more.
  EXPECT_EQ(spans(program, trace, 0), (Texts{"0-600", "600-700", "600-1525", "1525-1625"}));
  // 1F0 goes at 1/2 * 2/3 = 1/3 to 1525, at 1/2 to 1625, and alone for what is left: 600 - 275 - 50.
  EXPECT_EQ(spans(program, trace, 1), (Texts{"0-700", "700-1900", "700-1625", "1900-2500"}));
}

TEST(SharedDevices, TransfersOfItsOwnRankSlowComputationDown) {
  const Program program =
      HandProgram{{.ranks = 2, .stages = 2, .microbatches = 2},
                  communicators({{0, 1}}),
                  {{"0F0", "0SEND_F0@0", "0F1", "0SEND_F1@0"}, {"1RECV_F0@0", "1F0", "1RECV_F1@0", "1F1"}}}
          .build();
  const CostTable costs = cost_table({{forward, -1, 600}, {send_forward, -1, 100}});
  const TimedTrace trace = run(program, costs, {.own_transfers = SharedDevices::kWhole / 2});
  // 0F1 does 2/3 of 100 beside the first transfer, and the rest of 600 alone.
  EXPECT_EQ(spans(program, trace, 0), (Texts{"0-600", "600-700", "600-1234", "1234-1334"}));
  // 1F0 does 2/3 of 634 beside the RECV that waits for the second message.
  EXPECT_EQ(spans(program, trace, 1), (Texts{"0-700", "700-1512", "700-1334", "1512-2112"}));
  EXPECT_EQ(run(program, costs, {.own_collectives = SharedDevices::kWhole / 2}), run(program, costs, {}))
      << "there are no collectives";
}

TEST(SharedDevices, TooLongActionsAreRefused) {
  const Program program = forwards(2);
  const CostTable costs = cost_table({{forward, -1, 86'400'000'000'001}});
  const auto found = simulate_on_devices({program, rendezvous()}, {costs, CostTable()}, slowed(2, 50));
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::bad_argument);
  EXPECT_EQ(found.error().place.expected.substr(0, 16), "at most 24 hours");
}

TEST(SharedDevices, ATransferMayTakeMoreThanADay) {
  const Program program = HandProgram{
      {.ranks = 2, .stages = 2, .microbatches = 1},
      communicators({{0, 1}}),
      {{"0F0", "0SEND_F0@0"},
       {"1RECV_F0@0", "1F0"}}}.build();
  const Nanoseconds two_days = 172'800'000'000'000;
  const CostTable costs = cost_table({{forward, -1, 60}, {send_forward, -1, two_days}});
  const TimedTrace trace = run(program, costs, slowed(2, 50));
  EXPECT_EQ(step_times(program, trace).makespan, two_days + 120);
}

TEST(SharedDevices, ASumThatDoesNotFitIsNamedAsOne) {
  const Program program = forwards(2);
  const CostTable costs = cost_table({{forward, -1, 86'400'000'000'000}});
  const SharedDevices devices{.ranks = 100'000, .slowdowns = {{forward, SharedDevices::kMaxSlowdown}}};
  const auto found = simulate_on_devices({program, rendezvous()}, {costs, CostTable()}, devices);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().place.found, "a larger sum");
}

}  // namespace
}  // namespace ppsim::test::shared_devices_test
