#include "ppsim/verifier/memory/memory.hpp"

#include <gtest/gtest.h>

#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/schedules/registry.hpp"
#include "ppsim/verifier/verify.hpp"
#include "support/all_states.hpp"
#include "support/hand_program.hpp"
#include "support/programs.hpp"
#include "support/reachable_states.hpp"

namespace ppsim::test {
namespace {

SizeTable sizes_of(std::initializer_list<std::pair<TensorKind, Bytes>> rows) {
  SizeTable sizes;
  for (const auto& [kind, bytes] : rows) sizes.set({.kind = kind}, bytes);
  return sizes;
}

VerifyReport ask(const Program& program, const SizeTable& sizes, std::optional<Bytes> limit = std::nullopt) {
  VerifyOptions options;
  options.sizes = sizes;
  options.memory_limit = limit;
  return verify(program, options);
}

Program lowered_1f1b(int ranks, int microbatches) {
  const auto schedule = generate("1f1b", {.ranks = ranks, .microbatches = microbatches});
  return *lower(*schedule, LoweringOptions());
}

SizeTable activations_and_buffers() {
  SizeTable sizes = sizes_of({{TensorKind::saved_for_weight, 10},
                              {TensorKind::boundary_input, 1},
                              {TensorKind::boundary_output, 1},
                              {TensorKind::incoming_gradient, 1},
                              {TensorKind::outgoing_gradient, 1}});
  sizes.set({.kind = TensorKind::boundary_input, .subject = 0}, 0);
  return sizes;
}

TEST(WorstCaseMemory, OfOneFOneBHasEverySendLaggingAndAReceivePosted) {
  const VerifyReport report = ask(lowered_1f1b(8, 64), activations_and_buffers());
  ASSERT_EQ(report.memory.size(), 8u);
  // 8 activations, their 8 outputs still to be sent, and one gradient that comes in.
  EXPECT_EQ(report.memory[0].bytes, 8 * 10 + 8 + 1);
  EXPECT_EQ(report.memory[0].live.size(), 17u);
  EXPECT_EQ(report.memory[0].witness.bytes, report.memory[0].bytes);
  // 1 activation, its input, the next input received ahead, and gradients that lag behind.
  EXPECT_GT(report.memory[7].bytes, 10 + 1);
}

TEST(WorstCaseMemory, DoesNotGrowWithTheNumberOfMicrobatches) {
  const auto few = ask(lowered_1f1b(4, 8), activations_and_buffers());
  const auto many = ask(lowered_1f1b(4, 80), activations_and_buffers());
  for (std::size_t r = 0; r < 3; ++r) EXPECT_EQ(few.memory[r].bytes, many.memory[r].bytes) << "rank " << r;
}

TEST(MemoryProperty, IsRefutedWithARunThatReplays) {
  const Program program = lowered_1f1b(4, 6);
  const SizeTable sizes = activations_and_buffers();
  const Bytes worst = ask(program, sizes).memory[0].bytes;
  EXPECT_TRUE(ask(program, sizes, worst).proved(Property::memory));

  const VerifyReport report = ask(program, sizes, worst - 1);
  const auto& refuted = std::get<Refuted>(report.find(Property::memory)->verdict);
  const auto& overrun = std::get<MemoryOverrun>(refuted.counterexample);
  EXPECT_EQ(overrun.rank, RankId(0));
  EXPECT_EQ(overrun.bytes, worst);
  EXPECT_EQ(overrun.limit, worst - 1);
  EXPECT_EQ(overrun.firing_order.items.size(), 2 * program.size());
  const std::vector<std::string> lines = explain(program, refuted.counterexample);
  EXPECT_EQ(lines[0], "rank 0: 45 bytes live at once, limit 44");
  EXPECT_EQ(lines.size(), overrun.live.size() + 1 + 4);
  EXPECT_EQ(lines[lines.size() - 4].rfind("  then: rank 0 has computed up to 0", 0), 0U)
      << lines[lines.size() - 4];
  EXPECT_NE(std::find(lines.begin(), lines.end(), "  live: saved_for_weight of stage 0, microbatch 3"),
            lines.end());
}

/// One output sent to two ranks; from each a gradient is received only once the output is with it.
Program fan_out() {
  PipelineSpec spec = chain_spec(3, 3, 1);
  spec.edges = {{StageId(0), StageId(1)}, {StageId(0), StageId(2)}};
  HandProgram p{spec, communicators({{0, 1}, {0, 2}, {0, 1}, {0, 2}})};
  p.rows = {{"0F0", "0SEND_F0>1@0", "0SEND_F0>2@1", "0RECV_B0<1@2 after 1", "0RECV_B0<2@3 after 2", "0B0"},
            {"1RECV_F0@0", "1F0", "1B0", "1SEND_B0@2"},
            {"2RECV_F0@1", "2F0", "2B0", "2SEND_B0@3"}};
  return p.build();
}

TEST(WorstCaseMemory, IsExactWhereTheLastUserIsOneOfSeveral) {
  const Program program = fan_out();
  const SizeTable sizes = sizes_of({{TensorKind::boundary_output, 3}, {TensorKind::incoming_gradient, 2}});
  const VerifyReport report = ask(program, sizes, 5);
  // The output with either gradient, or both gradients, never all three; pairs alone cannot tell.
  EXPECT_EQ(report.memory[0].bytes, 5);
  EXPECT_EQ(report.memory[0].witness.bytes, 7);
  EXPECT_TRUE(report.proved(Property::memory));
  const std::vector<Bytes> bytes = tensor_sizes(tensor_table(program), sizes);
  EXPECT_EQ(max_memory_of_all_states(program, build_execution_graph(program, {}), bytes, 10'000)->at(0), 5);

  VerifyOptions options;
  options.sizes = sizes;
  options.memory_limit = 5;
  EXPECT_EQ(make_certificate({program, options.capabilities}, options, report).error().message,
            "the bound that can be witnessed is over the limit");
}

TEST(WorstCaseMemory, WaitsForEveryLastUser) {
  const Program program = fan_out();
  const auto worst = [&](Bytes from_first, Bytes from_second) {
    SizeTable sizes = sizes_of({{TensorKind::boundary_output, 3}});
    sizes.set({.kind = TensorKind::incoming_gradient, .subject = 0, .peer = 1}, from_first);
    sizes.set({.kind = TensorKind::incoming_gradient, .subject = 0, .peer = 2}, from_second);
    return ask(program, sizes).memory.at(0).bytes;
  };
  // The output stays beside either gradient, while it is still to go the other way.
  EXPECT_EQ(worst(10, 1), 3 + 10);
  EXPECT_EQ(worst(1, 10), 3 + 10);
}

TEST(WorstCaseMemory, TakesOneMessageOfAGroupForNoOther) {
  HandProgram p{chain_spec(2, 2, 2), communicators({{0, 1}, {0, 1}, {0, 1}, {0, 1}})};
  p.rows = {{"0F0", "0F1", "{0SEND_F1@1 0SEND_F0@0}", "0RECV_B0@2", "0B0", "0RECV_B1@3", "0B1"},
            {"1RECV_F0@0", "1F0", "1B0", "1SEND_B0@2", "1RECV_F1@1", "1F1", "1B1", "1SEND_B1@3"}};
  VerifyOptions options;
  options.capabilities.credits = 2;
  options.sizes = sizes_of({{TensorKind::boundary_output, 4}});
  options.sizes->set({.kind = TensorKind::workspace, .subject = 0, .op = OpKind::backward}, 5);
  // The first gradient is back, while the second output is not out: the group holds both.
  EXPECT_EQ(verify(p.build(), options).memory.at(0).bytes, 4 + 4 + 5);
}

TEST(WorstCaseMemory, KnowsWhatAFreedCreditTells) {
  PipelineSpec spec = chain_spec(2, 4, 3);
  spec.routes = {{StageId(0), StageId(1)}, {StageId(2), StageId(3)}};
  spec.route = {RouteId(0), RouteId(0), RouteId(1)};
  HandProgram p{spec, communicators({{0, 1}, {0, 1}, {0, 1}})};
  // Rank 1 receives 1F0 only after 3F2: with one credit 0SEND_F1 completes only after 2SEND_F2.
  p.rows = {{"2F2", "2SEND_F2@1", "0F0", "0SEND_F0@0", "0F1", "0SEND_F1@0", "0RECV_B1@2 after 5", "0B1"},
            {"3RECV_F2@1", "3F2", "1RECV_F0@0 after 0", "1F0", "1RECV_F1@0", "1F1", "1B1", "1SEND_B1@2"}};
  const Program program = p.build();
  VerifyOptions options;
  options.properties = {Property::memory};
  options.sizes = sizes_of({{TensorKind::incoming_gradient, 4}});
  options.sizes->set({.kind = TensorKind::boundary_output, .subject = 2}, 5);
  const auto worst = [&](int credits) {
    options.capabilities.credits = credits;
    return verify(program, options).memory.at(0).bytes;
  };
  EXPECT_EQ(worst(1), 5);
  EXPECT_EQ(worst(2), 5 + 4);
}

TEST(WorstCaseMemory, KnowsThatAReceiveIsCompleteOnceItsMessageIsThere) {
  HandProgram p{chain_spec(2, 2, 2), communicators({{0, 1}, {0, 1}, {0, 1}})};
  // 1SEND_B1 leaves after 1SEND_B0 is out and 1RECV_F1 complete, which is all that the group waits for.
  p.rows = {{"0F0", "0SEND_F0@0", "0F1", "{0SEND_F1@0 0RECV_B0@1}", "0RECV_B1@2", "0B1", "0B0"},
            {"1RECV_F0@0", "1F0", "1RECV_F1@0", "1F1", "1B0", "1SEND_B0@1", "1B1", "1SEND_B1@2 after 5"}};
  const Program program = p.build();
  VerifyOptions options;
  options.capabilities.credits = 2;
  options.sizes = sizes_of({{TensorKind::boundary_output, 4}});
  options.sizes->set({.kind = TensorKind::workspace, .subject = 0, .op = OpKind::backward}, 5);
  const VerifyReport report = verify(program, options);
  // Both outputs, or the workspace of a B: when the first B starts both outputs are gone.
  EXPECT_EQ(report.memory.at(0).bytes, 8);
  const TensorTable table = tensor_table(program);
  const auto truth = reachable_states(program, options.capabilities, table, 10'000);
  EXPECT_EQ(truth->most(table, tensor_sizes(table, *options.sizes), RankId(0)), 8);
  // The checker of certificates lets receipts lag.
  EXPECT_EQ(report.memory.at(0).witness.bytes, 9);
  const auto certificate = make_certificate({program, options.capabilities}, options, report);
  EXPECT_TRUE(check_certificate(*certificate, program, &*options.sizes).has_value());
}

TEST(WorstCaseMemory, GivesUpWhereBranchingIsLimited) {
  const Program program = fan_out();
  const AnalyzedProgram analyzed(program, {});
  const std::vector<Bytes> bytes = tensor_sizes(
      analyzed.tensors(), sizes_of({{TensorKind::boundary_output, 1}, {TensorKind::incoming_gradient, 1}}));
  EXPECT_FALSE(worst_case_memory(analyzed, bytes, RankId(0), 0).has_value());
  // One cut for each SEND that may be the last user; 0F0 is none of them, since both come after it.
  EXPECT_TRUE(worst_case_memory(analyzed, bytes, RankId(0), 2).has_value());
}

TEST(WorstCaseMemory, TakesWhicheverWriterCanComeFirst) {
  HandProgram p{chain_spec(1, 2, 1), communicators({{0}, {0}})};
  p.rows = {{"0F0", "1UNSHARD@0 after 0", "1UNSHARD@1", "1F0", "1B0", "1RESHARD", "0B0"}};
  const Program program = p.build();
  SizeTable sizes = sizes_of({{TensorKind::gathered_parameters, 4}});
  sizes.set({.kind = TensorKind::workspace, .subject = 0, .op = OpKind::forward}, 5);
  // The second gather waits for nothing: the parameters may be there while 0F0 runs.
  EXPECT_EQ(ask(program, sizes).memory.at(0).bytes, 4 + 5);
  const TensorTable table = tensor_table(program);
  EXPECT_EQ(reachable_states(program, {}, table, 1'000)->most(table, tensor_sizes(table, sizes), RankId(0)),
            4 + 5);
}

TEST(WorstCaseMemory, TakesNoArrivalForAReceipt) {
  PipelineSpec spec = chain_spec(3, 5, 2);
  spec.placement = {RankId(0), RankId(1), RankId(2), RankId(1), RankId(2)};
  spec.edges = {{StageId(0), StageId(2)}, {StageId(1), StageId(2)}, {StageId(3), StageId(4)}};
  spec.routes = {{StageId(0), StageId(1), StageId(2)}, {StageId(3), StageId(4)}};
  spec.route = {RouteId(0), RouteId(1)};
  HandProgram p{spec, communicators({{0, 2}, {1, 2}, {1, 2}})};
  // When 4F1 runs, both inputs of stage 2 are there, but the second is received only after it.
  p.rows = {{"0F0", "0SEND_F0>2@0"},
            {"1F0", "1SEND_F0>2@1", "3F1", "3SEND_F1>4@2 after 1"},
            {"2RECV_F0<0@0", "4RECV_F1<3@2", "4F1 after 0", "2RECV_F0<1@1 after 2"}};
  const Program program = p.build();
  VerifyOptions options;
  options.properties = {Property::memory};
  options.capabilities.credits = 1;
  options.sizes.emplace();
  options.sizes->set({.kind = TensorKind::boundary_input, .subject = 2}, 4);
  options.sizes->set({.kind = TensorKind::workspace, .subject = 4, .op = OpKind::forward}, 5);
  EXPECT_EQ(verify(program, options).memory.at(2).bytes, 4 + 5);
  const TensorTable table = tensor_table(program);
  const auto truth = reachable_states(program, options.capabilities, table, 10'000);
  EXPECT_EQ(truth->most(table, tensor_sizes(table, *options.sizes), RankId(2)), 4 + 5);
}

TEST(MemoryProperty, IsRefutedOnTheRankThatNeedsMost) {
  SizeTable sizes;
  sizes.set({.kind = TensorKind::saved_for_weight, .subject = 1}, 100);
  const VerifyReport report = ask(lowered_1f1b(3, 6), sizes, 150);
  const auto& refuted = std::get<Refuted>(report.find(Property::memory)->verdict);
  EXPECT_EQ(std::get<MemoryOverrun>(refuted.counterexample).rank, RankId(1));
}

TEST(MemoryProperty, IsUnknownWithoutSizesOrAProofOfDeadlockFreedom) {
  VerifyOptions options;
  options.properties = {Property::memory};
  EXPECT_EQ(std::get<Unknown>(verify(two_rank_step(), options).results[0].verdict).reason,
            "no sizes are given");
  options.sizes = activations_and_buffers();
  EXPECT_TRUE(verify(two_rank_step(), options).all_proved());
  EXPECT_EQ(std::get<Unknown>(verify(deferred_receives(false), options).results[0].verdict).reason,
            "the Program deadlocks, which deadlock_free shows");
}

TEST(MemoryProperty, IsAskedByItsLimit) {
  VerifyOptions options;
  options.memory_limit = 1;
  const VerifyReport no_sizes = verify(two_rank_step(), options);
  ASSERT_NE(no_sizes.find(Property::memory), nullptr);
  EXPECT_TRUE(std::holds_alternative<Unknown>(no_sizes.find(Property::memory)->verdict));
  EXPECT_FALSE(no_sizes.all_proved());
  options.sizes = activations_and_buffers();
  options.properties = {Property::matched};
  const VerifyReport report = verify(two_rank_step(), options);
  EXPECT_EQ(report.results.size(), 2U);
  EXPECT_TRUE(std::holds_alternative<Refuted>(report.find(Property::memory)->verdict));
}

TEST(MemoryProperty, UnderAResidencyLimitIsAnUpperBound) {
  VerifyOptions options;
  options.sizes = activations_and_buffers();
  options.capabilities.residency = 2;
  const VerifyReport proved = verify(two_rank_step(), options);
  EXPECT_EQ(proved.find(Property::memory)->notes,
            std::vector<std::string>{"upper bound: the residency limit is left out"});
  options.memory_limit = 1;
  EXPECT_TRUE(
      std::holds_alternative<Unknown>(verify(two_rank_step(), options).find(Property::memory)->verdict));
}

}  // namespace
}  // namespace ppsim::test
