// Computation beside transfers: kernels of NCCL hold multiprocessors, so that a product whose tiles just fill
// the device takes two waves.

#include <gtest/gtest.h>

#include "ppsim/core/ir/transports.hpp"
#include "ppsim/simulator/engine/simulate.hpp"
#include "support/hand_program.hpp"
#include "support/timing.hpp"

namespace ppsim::test {
namespace {

using Texts = std::vector<std::string>;
using enum OpKind;

/// Each forward is one wave of 4 ns on all multiprocessors, and two on fewer.
const CostTable kAlone = cost_table({{forward, -1, 4}, {send_forward, -1, 1}});
const CostTable kTwoWaves = cost_table({{forward, -1, 8}, {send_forward, -1, 1}});

TimedTrace run(const Program& program, std::string_view on, const CostTable& beside = kTwoWaves) {
  return simulate_beside_transfers({program, transport(on).value()}, {kAlone, beside}).value().value();
}

/// Rank 1 posts its second receive as soon as the first is complete.
Program two_forwards() {
  return HandProgram{{.ranks = 2, .stages = 2, .microbatches = 2},
                     communicators({{0, 1}}),
                     {{"0F0", "0SEND_F0@0", "0F1", "0SEND_F1@0"}, {"1RECV_F0@0", "1F0", "1RECV_F1@0", "1F1"}}}
      .build();
}

TEST(BesideTransfers, AWaveMoreWhileAReceiveIsPending) {
  const Program program = two_forwards();
  const TimedTrace trace = run(program, "nccl");
  // 0F1 goes at half speed for the 1 ns of the first transfer: half a nanosecond is done, and the other 3.5
  // take until 8.5, which is whole at 9.
  EXPECT_EQ(spans(program, trace, 0), (Texts{"0-4", "4-5", "4-9", "9-10"}));
  // 1F0 goes at half speed from 5 to 10, where the second receive ends: 2.5 of 4 are done, 1.5 are left.
  EXPECT_EQ(spans(program, trace, 1), (Texts{"0-5", "5-12", "5-10", "12-16"}));
}

TEST(BesideTransfers, OnlyTheTimeBesideATransferIsSlow) {
  // Rank 0 has no transfer in flight while it computes; rank 1 has one for the first nanosecond of 1F0, of
  // which half a nanosecond's work is done: 3.5 are left, until 13.5.
  const Program program = HandProgram{
      {.ranks = 2, .stages = 2, .microbatches = 2},
      communicators({{0, 1}}),
      {{"0F0", "0F1", "0SEND_F0@0 after 1", "0SEND_F1@0"},
       {"1RECV_F0@0", "1RECV_F1@0", "1F0",
        "1F1"}}}.build();
  const TimedTrace trace = run(program, "nccl");
  EXPECT_EQ(spans(program, trace, 0), (Texts{"0-4", "4-8", "8-9", "9-10"}));
  EXPECT_EQ(spans(program, trace, 1), (Texts{"0-9", "9-10", "9-14", "14-18"}));
}

TEST(BesideTransfers, NothingIsSlowedWhereTransfersAreNoKernelsOrTheTableSaysNothing) {
  const Program program = two_forwards();
  for (const std::string_view on : {"any", "in-process", "mpi", "copy", "nccl", "nccl-one-queue"}) {
    const TimedTrace alone = simulate_program(program, transport(on).value(), kAlone).value().value();
    EXPECT_EQ(run(program, on, CostTable()), alone) << on;
    EXPECT_EQ(run(program, on, kAlone), alone) << on;
    EXPECT_EQ(run(program, on) == alone, !on.starts_with("nccl")) << on;
  }
}

TEST(BesideTransfers, AStuckProgramIsStuckAsEver) {
  const Program program = HandProgram{
      {.ranks = 2, .stages = 2, .microbatches = 1},
      communicators({{0, 1}}),
      {{"0F0", "0SEND_F0@0"},
       {"1F0"}}}.build();
  const auto run =
      simulate_beside_transfers({program, transport("nccl").value()}, {kAlone, kTwoWaves}).value();
  EXPECT_EQ(run, simulate_program(program, transport("nccl").value(), kAlone).value());
}

}  // namespace
}  // namespace ppsim::test
