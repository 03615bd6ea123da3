// Groups of messages on the strict fake: those that share no queue do not wait for each other (rule E6).

#include <gtest/gtest.h>

#include <algorithm>

#include "ppsim/core/execution/naive_executor.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/gpu_backend/stage_model/null_model.hpp"
#include "support/fake_gpu/run.hpp"
#include "support/hand_program.hpp"
#include "support/registered_programs.hpp"
#include "support/small_transformer.hpp"

namespace ppsim::test::strict_fake_groups_test {
namespace {

void expect_finished(const std::string& name, const Program& program, const CudaOptions& options) {
  FakeGpuOptions machine = devices_for(program);
  machine.one_queue = options.one_hardware_queue;
  FakeGpu gpu(machine);
  const auto result = run_on_fake(gpu, program, NullModel(), {.cuda = options});
  ASSERT_TRUE(result) << name << ": " << to_string(result.error());
  EXPECT_EQ(result->outcome, RunOutcome::finished) << name;
  for (const Fault& fault : gpu.faults()) ADD_FAILURE() << name << ": " << fault;
}

void expect_finished_by_copy_engines(const std::string& name, const Program& program) {
  for (const bool graphs : {false, true}) {
    expect_finished(name + (graphs ? " in graphs" : " streamed"), program,
                    {.transport = CudaTransport::copy, .graphs = graphs, .host_threads = false});
  }
}

/// Rank 0 has its receives in flight before the sends that they wait for.
TEST(StrictFakeGroups, ThatShareNoQueueDoNotWaitForEachOther) {
  const Program program =
      HandProgram{
          .pipeline = chain_spec(2, 2, 2),
          .communicators = communicators({{0, 1}, {0, 1}}),
          .rows = {{"{0RECV_B0@1 0RECV_B1@1}", "0F0", "0F1", "{0SEND_F0@0 0SEND_F1@0}", "0B0", "0B1"},
                   {"{1RECV_F0@0 1RECV_F1@0}", "1F0", "1F1", "1B0", "1B1", "{1SEND_B0@1 1SEND_B1@1}"}}}
          .build();
  expect_finished_by_copy_engines("receives before sends", program);
}

/// Groups that have some of their queues in common run one after another, each member for itself: within one
/// of them both directions share a queue, and the last one begins on a queue that no other one begins on.
TEST(StrictFakeGroups, ThatShareSomeQueuesRunOneAfterAnother) {
  const Program program = HandProgram{
      .pipeline = chain_spec(2, 2, 4),
      .communicators = communicators({{0, 1}, {0, 1}, {0, 1}}),
      .rows = {
          {"0F0", "0SEND_F0@0", "0F1", "{0SEND_F1@0 0RECV_B0@0}", "0F2", "0B0", "{0SEND_F2@0 0RECV_B1@1}",
           "0F3", "0B1", "{0RECV_B2@1 0SEND_F3@2}", "0B2", "0RECV_B3@1", "0B3"},
          {"1RECV_F0@0", "1F0", "1B0", "{1SEND_B0@0 1RECV_F1@0}", "1F1", "1B1", "{1SEND_B1@1 1RECV_F2@0}",
           "1F2", "1B2", "{1RECV_F3@2 1SEND_B2@1}", "1F3", "1B3",
           "1SEND_B3@1"}}}.build();
  expect_finished_by_copy_engines("groups in a chain", program);
}

/// In one hardware queue a stream that waited for the other one of its group would hold up the forward behind
/// it, which the other one waits for.
TEST(StrictFakeGroups, OnSeveralQueuesHoldNothingUpOnceTheyHaveStarted) {
  const Program program = HandProgram{
      .pipeline = chain_spec(2, 2, 3),
      .communicators = communicators({{0, 1}, {0, 1}, {0, 1}}),
      .rows = {
          {"0F0", "0SEND_F0@0", "0F1", "{0SEND_F1@0 0RECV_B0@1}", "0F2", "0SEND_F2@2", "0B0", "0RECV_B1@1",
           "0B1", "0RECV_B2@1", "0B2"},
          {"1RECV_F0@0", "1F0", "1RECV_F1@0", "1F1", "1RECV_F2@2", "1F2", "1B0", "1SEND_B0@1", "1B1",
           "1SEND_B1@1", "1B2",
           "1SEND_B2@1"}}}.build();
  for (const bool one_queue : {false, true})
    expect_finished("a group", program, {.host_threads = false, .one_hardware_queue = one_queue});
}

class StrictFakePaired : public testing::TestWithParam<CommunicatorPolicy> {};

TEST_P(StrictFakePaired, ReceivesPostedEarlyHoldNothingUp) {
  const auto computable = exact_transformer(5);
  int programs = 0;
  for (const int early : {1, 2, 4}) {
    const LoweringOptions options{.order = IssueOrder::early,
                                  .early = early,
                                  .communicators = GetParam(),
                                  .grouping = Grouping::paired};
    const auto check = [&](const std::string& name, const Program& program) {
      if (run_naively(program, rendezvous(), CostTable()).outcome != NaiveRun::Outcome::finished) return;
      ++programs;
      expect_finished_by_copy_engines(name + ", early " + std::to_string(early), program);
    };
    static_cast<void>(for_each_registered(*computable, small_shapes(), options, check));
  }
  EXPECT_GT(programs, 50);
}

INSTANTIATE_TEST_SUITE_P(Policies, StrictFakePaired,
                         testing::Values(CommunicatorPolicy::per_edge, CommunicatorPolicy::per_stage_edge,
                                         CommunicatorPolicy::per_pair),
                         [](const auto& one) {
                           std::string name(policy_name(one.param));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace ppsim::test::strict_fake_groups_test
