#include <gtest/gtest.h>

#include "ppsim/core/ir/transports.hpp"
#include "ppsim/verifier/verify.hpp"
#include "support/hand_program.hpp"
#include "support/reachable_states.hpp"

namespace ppsim::test {
namespace {

/// Stages 0 to 3 on rank 0 feed stages 4 to 7 on rank 1, each on its own queue. Stage 2 sends once stage 1
/// has sent, and rank 1 receives from stage 1 once stage 4 has computed, from stage 3 once stage 2's message
/// has arrived. So the input of stage 4 is freed before that of stage 7 arrives, if a SEND waits for its
/// RECV.
Program four_inputs() {
  PipelineSpec pipeline;
  pipeline.ranks = 2;
  pipeline.stages = 8;
  pipeline.placement = {RankId(0), RankId(0), RankId(0), RankId(0),
                        RankId(1), RankId(1), RankId(1), RankId(1)};
  for (int stage = 0; stage < 4; ++stage) pipeline.edges.push_back({StageId(stage), StageId(stage + 4)});
  return HandProgram{
      .pipeline = pipeline,
      .communicators = communicators({{0, 1}, {0, 1}, {0, 1}, {0, 1}}),
      .rows = {{"0F0", "1F0", "2F0", "3F0", "0SEND_F0@0", "1SEND_F0@1", "2SEND_F0@2 after 5", "3SEND_F0@3"},
               {"4RECV_F0@0", "4F0", "5RECV_F0@1 after 1", "6RECV_F0@2", "7RECV_F0@3 after 3", "5F0", "6F0",
                "7F0"}}}
      .build();
}

SizeTable sizes_of_inputs() {
  SizeTable sizes;
  sizes.set({.kind = TensorKind::boundary_input, .subject = 4}, 10);
  sizes.set({.kind = TensorKind::boundary_input, .subject = 7}, 20);
  return sizes;
}

VerifyOptions options_on(const TransportCapabilities& capabilities) {
  VerifyOptions options;
  options.capabilities = capabilities;
  options.sizes = sizes_of_inputs();
  return options;
}

Certificate certificate_on(const TransportCapabilities& capabilities, const Program& program) {
  const VerifyOptions options = options_on(capabilities);
  return make_certificate({program, capabilities}, options, verify(program, options)).value();
}

TEST(EagerSends, ABoundCountsOnNoSendThatWaitsForItsReceive) {
  const Program program = four_inputs();
  const auto worst = [&](const TransportCapabilities& capabilities) {
    const VerifyReport report = verify(program, options_on(capabilities));
    EXPECT_TRUE(report.all_proved());
    return report.memory.at(1).bytes;
  };
  const TransportCapabilities eager{.eager = true};
  EXPECT_EQ(worst(rendezvous()), 20);
  EXPECT_EQ(worst(eager), 30);
  EXPECT_EQ(worst(any_transport()), 30);
  const TensorTable table = tensor_table(program);
  const auto states = reachable_states(program, guaranteed(eager), table, 100'000);
  EXPECT_EQ(states->most(table, tensor_sizes(table, sizes_of_inputs()), RankId(1)), 30);
}

TEST(EagerSends, ABoundOfRendezvousIsRefusedWhereSendsAreEager) {
  const Program program = four_inputs();
  const SizeTable sizes = sizes_of_inputs();
  const TransportCapabilities eager{.eager = true};
  EXPECT_FALSE(check_certificate_on(eager, certificate_on(rendezvous(), program), program, &sizes));
  EXPECT_TRUE(check_certificate_on(rendezvous(), certificate_on(eager, program), program, &sizes));
  EXPECT_TRUE(check_certificate_on({.credits = 1}, certificate_on(eager, program), program, &sizes));
}

/// The tensor that rank 0 sends is freed with the group, so with its RECV, whose data may still be copied
/// while rank 0 computes with a later message.
TEST(EagerSends, AReceiptMayEndAfterItsDataIsThere) {
  PipelineSpec pipeline;
  pipeline.ranks = 2;
  pipeline.stages = 6;
  pipeline.placement = {RankId(0), RankId(1), RankId(1), RankId(0), RankId(1), RankId(0)};
  pipeline.edges = {{StageId(0), StageId(1)}, {StageId(2), StageId(3)}, {StageId(4), StageId(5)}};
  const Program program = HandProgram{
      .pipeline = pipeline,
      .communicators = communicators({{0, 1}, {0, 1}, {0, 1}}),
      .rows = {{"0F0", "{0SEND_F0@0 3RECV_F0@1}", "5RECV_F0@2", "5F0", "3F0"},
               {"2F0", "4F0", "1RECV_F0@0", "2SEND_F0@1", "4SEND_F0@2 after 2,3",
                "1F0"}}}.build();
  VerifyOptions options = options_on(any_transport());
  options.sizes->set({.kind = TensorKind::boundary_output, .subject = 0}, 10);
  options.sizes->set({.kind = TensorKind::workspace, .subject = 5}, 20);
  const VerifyReport report = verify(program, options);
  ASSERT_TRUE(report.all_proved());
  EXPECT_EQ(report.memory.at(0).bytes, 30);
  EXPECT_EQ(report.memory.at(0).witness.bytes, 30);
}

TEST(EagerSends, SimulatedSendsWaitForTheirReceives) {
  const Program program = four_inputs();
  const AnalyzedProgram eager(program, {.eager = true});
  EXPECT_EQ(&eager.timed_graph(), &eager.graph());
  EXPECT_EQ(eager.guaranteed_graph().capabilities.credits, kUnlimitedCredits);
}

}  // namespace
}  // namespace ppsim::test
