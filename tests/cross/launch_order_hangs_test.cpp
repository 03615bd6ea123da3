// Programs that run with independent queues and hang on NCCL, which starts the communication of a rank in
// host order over all communicators (rule E9).

#include <gtest/gtest.h>

#include <algorithm>

#include "ppsim/core/execution/naive_executor.hpp"
#include "ppsim/core/ir/transports.hpp"
#include "ppsim/gpu_backend/stage_model/null_model.hpp"
#include "ppsim/verifier/verify.hpp"
#include "support/fake_gpu/run.hpp"
#include "support/random_case.hpp"
#include "support/regressions.hpp"

namespace ppsim::test {
namespace {

constexpr int kShards = 4;
constexpr int kPrograms = 4000;

bool finishes(const RandomCase& c, const TransportCapabilities& capabilities) {
  return run_naively(c.program, capabilities, c.costs).outcome == NaiveRun::Outcome::finished;
}

VerifyReport verified(const Program& program, const TransportCapabilities& capabilities) {
  VerifyOptions options;
  options.capabilities = capabilities;
  options.properties = {Property::matched, Property::deadlock_free};
  return verify(program, options);
}

/// The cycle of the refutation, one wait a line.
std::string cycle_under_nccl(const Program& program) {
  const TransportCapabilities nccl = transport("nccl").value();
  const VerifyReport report = verified(program, nccl);
  const auto* refuted = std::get_if<Refuted>(&report.find(Property::deadlock_free)->verdict);
  if (refuted == nullptr) return "not refuted";
  const auto& deadlock = std::get<Deadlock>(refuted->counterexample);
  const auto genuine = recheck_cycle(program, build_execution_graph(program, nccl), deadlock.cycle);
  EXPECT_TRUE(genuine) << to_string(genuine.error());
  std::string text;
  for (const Wait& wait : deadlock.cycle) text += to_string(wait) + "\n";
  return text;
}

/// The Program, unverified, on the stand-in for NCCL.
void expect_hang_on_strict_fake(const Program& program) {
  FakeGpuOptions machine = devices_for(program);
  machine.jumps = true;
  FakeGpu gpu(machine);
  const auto result = run_on_fake(gpu, program, NullModel());
  ASSERT_TRUE(result) << to_string(result.error());
  EXPECT_EQ(result->outcome, RunOutcome::deadlock);
  const auto said = [](const std::string& line) {
    return line.find("is launched after") != std::string::npos;
  };
  EXPECT_TRUE(std::ranges::any_of(gpu.stuck_at_jump(), said));
  EXPECT_TRUE(std::ranges::any_of(result->hang, [&](const Wait& wait) { return said(to_string(wait)); }))
      << testing::PrintToString(result->hang);
}

void expect_run_with_copy_engines(const Program& program) {
  FakeGpu gpu(devices_for(program));
  const auto result = run_on_fake(gpu, program, NullModel(),
                                  {.cuda = {.transport = CudaTransport::copy, .host_threads = false}});
  ASSERT_TRUE(result) << to_string(result.error());
  EXPECT_EQ(result->outcome, RunOutcome::finished);
}

void expect_hang_of_launch_order(const Program& program) {
  EXPECT_TRUE(verified(program, transport("in-process").value()).all_proved());
  EXPECT_NE(cycle_under_nccl(program).find("is launched after"), std::string::npos)
      << cycle_under_nccl(program);
  expect_hang_on_strict_fake(program);
  expect_run_with_copy_engines(program);
}

class LaunchOrderSearch : public testing::TestWithParam<int> {};

TEST_P(LaunchOrderSearch, FindsHangsThatAreRefutedAndHappen) {
  int found = 0;
  for (int number = GetParam(); number < kPrograms; number += kShards) {
    const RandomCase c = random_case(number);
    if (!finishes(c, rendezvous()) || finishes(c, transport("nccl").value())) continue;
    if (!is_issued_as_listed(c.program)) continue;
    ++found;
    SCOPED_TRACE("program " + std::to_string(number));
    expect_hang_of_launch_order(c.program);
    if (HasFailure()) return;
  }
  EXPECT_GE(found, 5);
}

INSTANTIATE_TEST_SUITE_P(Shards, LaunchOrderSearch, testing::Range(0, kShards));

TEST(LaunchOrderRegressions, HangOnNcclAndRunOnceTheyAreRepaired) {
  for (const std::string name : {"forward", "groups", "receives", "sends"}) {
    SCOPED_TRACE(name);
    expect_hang_of_launch_order(read_regression("launch-order-" + name + "-hangs"));
    const Program repaired = read_regression("launch-order-" + name + "-runs");
    FakeGpu gpu(devices_for(repaired));
    const auto result = run_on_fake(gpu, repaired, NullModel());
    ASSERT_TRUE(result) << to_string(result.error());
    EXPECT_EQ(result->outcome, RunOutcome::finished);
  }
}

}  // namespace
}  // namespace ppsim::test
