#include <gtest/gtest.h>

#include <algorithm>

#include "ppsim/core/ir/transports.hpp"
#include "ppsim/verifier/repair/repair.hpp"
#include "ppsim/verifier/verify.hpp"
#include "support/hand_program.hpp"
#include "support/reachable_states.hpp"

namespace ppsim::test {
namespace {

/// Stages 0, 1 and 2 on rank 0 feed stages 3, 4 and 5 on rank 1, which receives the last on a queue of its
/// own.
Program three_inputs() {
  PipelineSpec pipeline;
  pipeline.ranks = 2;
  pipeline.stages = 6;
  pipeline.placement = {RankId(0), RankId(0), RankId(0), RankId(1), RankId(1), RankId(1)};
  pipeline.edges = {{StageId(0), StageId(3)}, {StageId(1), StageId(4)}, {StageId(2), StageId(5)}};
  return HandProgram{.pipeline = pipeline,
                     .communicators = communicators({{0, 1}, {0, 1}, {0, 1}}),
                     .rows = {{"0F0", "1F0", "2F0", "0SEND_F0@0", "1SEND_F0@1", "2SEND_F0@2"},
                              {"3RECV_F0@0", "3F0", "4RECV_F0@1 after 1", "5RECV_F0@2", "4F0", "5F0"}}}
      .build();
}

SizeTable inputs_of(Bytes one, Bytes two, Bytes three) {
  SizeTable sizes;
  sizes.set({.kind = TensorKind::boundary_input, .subject = 3}, one);
  sizes.set({.kind = TensorKind::boundary_input, .subject = 4}, two);
  sizes.set({.kind = TensorKind::boundary_input, .subject = 5}, three);
  return sizes;
}

Bytes worst_of_rank_1(const TransportCapabilities& capabilities) {
  const Program program = three_inputs();
  const SizeTable sizes = inputs_of(10, 1, 20);
  VerifyOptions options;
  options.capabilities = capabilities;
  options.sizes = sizes;
  const VerifyReport report = verify(program, options);
  EXPECT_TRUE(report.all_proved());
  const TensorTable table = tensor_table(program);
  const auto states = reachable_states(program, guaranteed(capabilities), table, 100'000);
  EXPECT_EQ(states->most(table, tensor_sizes(table, sizes), RankId(1)), report.memory.at(1).bytes);
  return report.memory.at(1).bytes;
}

TEST(LaunchOrder, BoundsRestOnOrdersThatAreAlwaysKept) {
  // With ordered launches stage 5 receives after stage 3 has computed and freed its input.
  EXPECT_EQ(worst_of_rank_1(rendezvous()), 30);
  EXPECT_EQ(worst_of_rank_1(transport("nccl").value()), 21);
  // It may or may not be so: the bound has to hold where it is not.
  EXPECT_EQ(worst_of_rank_1(any_transport()), 30);
}

/// Whether a certificate of `proved` that bounds the memory holds where launches are not ordered.
bool bounds_hold_in_process(const TransportCapabilities& proved, const SizeTable& sizes) {
  const Program program = three_inputs();
  VerifyOptions options;
  options.capabilities = proved;
  options.sizes = sizes;
  const Certificate certificate =
      make_certificate({program, options.capabilities}, options, verify(program, options)).value();
  return check_certificate_on(rendezvous(), certificate, program, &sizes).has_value();
}

TEST(LaunchOrder, ABoundIsTakenWhereTheOrdersItRestsOnAreKept) {
  const SizeTable sizes = inputs_of(10, 1, 20);
  EXPECT_FALSE(bounds_hold_in_process(transport("nccl").value(), sizes));  // 21 bytes, and it can take 30
  EXPECT_TRUE(bounds_hold_in_process(any_transport(), sizes));
  EXPECT_TRUE(bounds_hold_in_process(transport("nccl").value(), inputs_of(10, 0, 0)));
}

TEST(LaunchOrder, ACycleThroughALaunchIsReportedAndReadable) {
  const Program program = HandProgram{
      .pipeline = chain_spec(2, 2, 2),
      .communicators = communicators({{0, 1}, {0, 1}}),
      .rows = {
          {"0F0", "0SEND_F0@0", "0F1", "0RECV_B0@1", "0B0", "0RECV_B1@1 after 4", "0SEND_F1@0", "0B1"},
          {"1RECV_F0@0", "1F0", "1RECV_F1@0", "1F1", "1B0", "1SEND_B0@1", "1B1",
           "1SEND_B1@1"}}}.build();
  VerifyOptions options;
  options.capabilities = transport("nccl").value();
  options.properties = {Property::deadlock_free};
  options.cross_check = true;
  const VerifyReport report = verify(program, options);
  const PropertyResult& result = *report.find(Property::deadlock_free);
  EXPECT_EQ(result.notes, std::vector<std::string>{"Z3 agrees"});
  const auto& found = std::get<Deadlock>(std::get<Refuted>(result.verdict).counterexample);
  std::string text;
  for (const Wait& wait : found.cycle) text += to_string(wait) + "\n";
  EXPECT_NE(
      text.find(
          "rank 0: 0SEND_F1 waits for rank 0: 0RECV_B0 (is launched after 0RECV_B1, which waits for it)"),
      std::string::npos)
      << text;
  options.capabilities = rendezvous();
  EXPECT_TRUE(verify(program, options).all_proved());
}

/// The computation is launched after the message that it makes.
TEST(LaunchOrder, WhatIsLaunchedAfterItsOwnReaderIsOnACycle) {
  const Program program = HandProgram{.pipeline = chain_spec(2, 2, 1),
                                      .communicators = communicators({{0, 1}, {0, 1}}),
                                      .rows = {{"0SEND_F0@0", "0F0", "0RECV_B0@1", "0B0"},
                                               {"1RECV_F0@0", "1F0", "1B0", "1SEND_B0@1"}}}
                              .build();
  VerifyOptions options;
  options.properties = {Property::deadlock_free};
  for (const TransportCapabilities& launches : {any_transport(), transport("nccl-one-queue").value()}) {
    options.capabilities = launches;
    const VerifyReport report = verify(program, options);
    const auto& refuted = std::get<Refuted>(report.find(Property::deadlock_free)->verdict);
    std::vector<std::string> waits;
    for (const Wait& wait : std::get<Deadlock>(refuted.counterexample).cycle)
      waits.push_back(to_string(wait));
    std::ranges::sort(waits);
    EXPECT_EQ(waits,
              (std::vector<std::string>{"rank 0: 0F0 waits for rank 0: 0SEND_F0 (is launched after it)",
                                        "rank 0: 0SEND_F0 waits for rank 0: 0F0 (needs its result)"}));
    const RepairAnswer answer = repair(program, {.verify = options});
    EXPECT_EQ(to_string(std::get<Repaired>(answer).changes.at(0)), "move rank 0: 0SEND_F0 behind 0F0");
  }
}

}  // namespace
}  // namespace ppsim::test
