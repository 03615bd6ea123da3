// Programs that run with independent queues and hang on NCCL, which starts the communication of a rank in
// host order over all communicators, or with one hardware queue, which starts everything in it (rule E9).

#include <gtest/gtest.h>

#include <algorithm>

#include "ppsim/core/execution/naive_executor.hpp"
#include "ppsim/core/ir/transports.hpp"
#include "ppsim/gpu_backend/stage_model/null_model.hpp"
#include "ppsim/verifier/verify.hpp"
#include "support/fake_gpu/run.hpp"
#include "support/random_case.hpp"
#include "support/regressions.hpp"

namespace ppsim::test::launch_order_hangs_test {
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

/// A transport that keeps an order, and one on which the Programs to be found run.
struct Launches {
  std::string hangs;
  std::string runs;
  std::string stuck;  ///< how the fake says what waits for that order

  [[nodiscard]] bool one_queue() const { return hangs == "nccl-one-queue"; }
};
const Launches kOverCommunicators{"nccl", "in-process", "is launched after"};
const Launches kOneQueue{"nccl-one-queue", "nccl", "in the hardware queue"};

/// The cycle of the refutation, one wait a line.
std::string cycle_under(const std::string& name, const Program& program) {
  const TransportCapabilities capabilities = transport(name).value();
  const VerifyReport report = verified(program, capabilities);
  const auto* refuted = std::get_if<Refuted>(&report.find(Property::deadlock_free)->verdict);
  if (refuted == nullptr) return "not refuted";
  const auto& deadlock = std::get<Deadlock>(refuted->counterexample);
  const auto genuine = recheck_cycle(program, build_execution_graph(program, capabilities), deadlock.cycle);
  EXPECT_TRUE(genuine) << to_string(genuine.error());
  std::string text;
  for (const Wait& wait : deadlock.cycle) text += to_string(wait) + "\n";
  return text;
}

CudaOptions way_of(bool one_queue) { return {.host_threads = false, .one_hardware_queue = one_queue}; }

FakeGpuOptions machine_for(const Program& program, bool one_queue) {
  FakeGpuOptions machine = devices_for(program);
  machine.one_queue = one_queue;
  return machine;
}

bool has(const std::vector<std::string>& lines, const std::string& text) {
  return std::ranges::any_of(lines,
                             [&](const std::string& line) { return line.find(text) != std::string::npos; });
}

/// The Program, unverified, on the stand-in for NCCL.
void expect_hang_on_strict_fake(const Program& program, const Launches& launches) {
  FakeGpu gpu(machine_for(program, launches.one_queue()));
  const auto result = run_on_fake(gpu, program, NullModel(), {.cuda = way_of(launches.one_queue())});
  ASSERT_TRUE(result) << to_string(result.error());
  EXPECT_EQ(result->outcome, RunOutcome::deadlock);
  EXPECT_TRUE(has(gpu.stuck_at_jump(), launches.stuck)) << testing::PrintToString(gpu.stuck_at_jump());
  std::vector<std::string> waits;
  for (const Wait& wait : result->hang) waits.push_back(to_string(wait));
  EXPECT_TRUE(has(waits, "is launched after")) << testing::PrintToString(waits);
}

void expect_run(const Program& program, const CudaOptions& way) {
  FakeGpu gpu(machine_for(program, way.one_hardware_queue));
  const auto result = run_on_fake(gpu, program, NullModel(), {.cuda = way});
  ASSERT_TRUE(result) << to_string(result.error());
  EXPECT_EQ(result->outcome, RunOutcome::finished);
}

void expect_hang_of_launch_order(const Program& program, const Launches& launches) {
  EXPECT_TRUE(verified(program, transport(launches.runs).value()).all_proved());
  const std::string cycle = cycle_under(launches.hangs, program);
  EXPECT_NE(cycle.find("is launched after"), std::string::npos) << cycle;
  expect_hang_on_strict_fake(program, launches);
  if (launches.one_queue()) expect_run(program, way_of(false));
  expect_run(program, {.transport = CudaTransport::copy, .host_threads = false});
}

/// Every n-th Program from the first on. Returns: how many hang.
int find_hangs(const Launches& launches, int first, int n) {
  int found = 0;
  for (int number = first; number < kPrograms && !testing::Test::HasFailure(); number += n) {
    const RandomCase c = random_case(number);
    if (!finishes(c, transport(launches.runs).value()) || finishes(c, transport(launches.hangs).value()))
      continue;
    if (!is_issued_as_listed(c.program)) continue;
    ++found;
    SCOPED_TRACE("program " + std::to_string(number));
    expect_hang_of_launch_order(c.program, launches);
  }
  return found;
}

class LaunchOrderSearch : public testing::TestWithParam<int> {};

TEST_P(LaunchOrderSearch, FindsHangsThatAreRefutedAndHappen) {
  EXPECT_GE(find_hangs(kOverCommunicators, GetParam(), kShards), 5);
}

INSTANTIATE_TEST_SUITE_P(Shards, LaunchOrderSearch, testing::Range(0, kShards));

/// They are rare: computation has to wait for a message that a later message of its rank makes possible.
TEST(OneQueueSearch, FindsHangsThatAreRefutedAndHappen) { EXPECT_GE(find_hangs(kOneQueue, 0, 1), 3); }

TEST(LaunchOrderRegressions, HangOnNcclAndRunOnceTheyAreRepaired) {
  for (const std::string name : {"forward", "groups", "receives", "sends"}) {
    SCOPED_TRACE(name);
    expect_hang_of_launch_order(read_regression("launch-order-" + name + "-hangs"), kOverCommunicators);
    expect_run(read_regression("launch-order-" + name + "-runs"), way_of(false));
  }
}

TEST(LaunchOrderRegressions, HangOnOneHardwareQueueAndRunOnceTheyAreRepaired) {
  expect_hang_of_launch_order(read_regression("one-queue-send-hangs"), kOneQueue);
  expect_run(read_regression("one-queue-send-runs"), way_of(true));
}

}  // namespace
}  // namespace ppsim::test::launch_order_hangs_test
