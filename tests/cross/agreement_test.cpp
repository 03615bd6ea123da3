// The reason that this project exists: independent parts that know the same Program agree on it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "ppsim/core/execution/naive_executor.hpp"
#include "ppsim/core/ir/transports.hpp"
#include "ppsim/core/memory/slot_plan.hpp"
#include "ppsim/gpu_backend/executor/execute.hpp"
#include "ppsim/gpu_backend/stage_model/null_model.hpp"
#include "ppsim/simulator/engine/simulate.hpp"
#include "ppsim/verifier/solver/z3_check.hpp"
#include "ppsim/verifier/verify.hpp"
#include "support/random_case.hpp"

namespace ppsim::agreement_test {
namespace {

constexpr int kPrograms = 10'000;
constexpr int kProgramsOfTransport = 1'000;
constexpr int kShards = 10;
constexpr std::size_t kSmallForSolver = 40;  // instructions

enum class Outcome { finished, deadlock, mismatch };

using Case = test::RandomCase;

Outcome by_naive(const Case& c) {
  switch (run_naively(c.program, c.capabilities, c.costs).outcome) {
    case NaiveRun::Outcome::finished:
      return Outcome::finished;
    case NaiveRun::Outcome::deadlock:
      return Outcome::deadlock;
    case NaiveRun::Outcome::mismatch:
      return Outcome::mismatch;
  }
  throw std::logic_error("unreachable");
}

Outcome by_simulator(const Case& c) {
  const SimulatedRun run = simulate_program(c.program, c.capabilities, c.costs).value();
  if (run) return Outcome::finished;
  return run.error().mismatches.empty() ? Outcome::deadlock : Outcome::mismatch;
}

Outcome by_verifier(const Case& c) {
  VerifyOptions options;
  options.capabilities = c.capabilities;
  options.properties = {Property::matched, Property::deadlock_free};
  const VerifyReport report = verify(c.program, options);
  if (!report.proved(Property::matched)) return Outcome::mismatch;
  const PropertyResult* deadlock = report.find(Property::deadlock_free);
  if (std::holds_alternative<Proved>(deadlock->verdict)) return Outcome::finished;
  const auto& found = std::get<Deadlock>(std::get<Refuted>(deadlock->verdict).counterexample);
  const auto checked =
      recheck_cycle(c.program, build_execution_graph(c.program, c.capabilities), found.cycle);
  EXPECT_TRUE(found.cycle.empty() || checked.has_value()) << to_string(checked.error());
  EXPECT_TRUE(!found.cycle.empty() || !found.culprits.empty()) << "a deadlock without explanation";
  return Outcome::deadlock;
}

Outcome by_backend(const Case& c, const BackendOptions& backend = CpuOptions()) {
  RunOptions options;
  options.backend = backend;
  options.capabilities = c.capabilities;
  options.unverified = true;
  const auto run = execute(c.program, NullModel(), options);
  if (!run) {
    EXPECT_EQ(run.error().code, ErrorCode::ill_formed) << to_string(run.error());
    return Outcome::mismatch;
  }
  return run->outcome == RunOutcome::finished ? Outcome::finished : Outcome::deadlock;
}

/// Whether Z3 says so, too, where the Program is small.
void expect_of_solver(const Case& c, Outcome expected) {
  if (expected == Outcome::mismatch || c.program.size() > kSmallForSolver) return;
  const SolverAnswer answer = deadlock_by_z3({c.program, c.capabilities});
  const auto wanted =
      expected == Outcome::finished ? SolverAnswer::Outcome::deadlock_free : SolverAnswer::Outcome::deadlock;
  ASSERT_EQ(answer.outcome, wanted) << answer.reason;
}

/// The mix is part of the claim: neither side may be rare.
void expect_mix(std::map<Outcome, int>& seen, int programs) {
  EXPECT_GT(seen[Outcome::finished], programs / 5);
  EXPECT_GT(seen[Outcome::deadlock], programs / 10);
  EXPECT_GT(seen[Outcome::mismatch], 0);
}

class Agreement : public testing::TestWithParam<int> {};

TEST_P(Agreement, OnFinishDeadlockOrMismatch) {
  std::map<Outcome, int> seen;
  for (int number = GetParam(); number < kPrograms; number += kShards) {
    const Case c = test::random_case(number);
    const Outcome expected = by_naive(c);
    ++seen[expected];
    ASSERT_EQ(by_simulator(c), expected) << "program " << number;
    ASSERT_EQ(by_verifier(c), expected) << "program " << number;
    ASSERT_EQ(by_backend(c), expected) << "program " << number;
    ASSERT_NO_FATAL_FAILURE(expect_of_solver(c, expected)) << "program " << number;
  }
  expect_mix(seen, kPrograms / kShards);
}

int programs_of_transport() {
  const char* const asked = std::getenv("PPSIM_AGREEMENT_PROGRAMS");
  return asked == nullptr ? kProgramsOfTransport : std::atoi(asked);
}

/// The same under each named transport; that of in-process is also that of mpi and copy.
class NamedTransportAgreement : public testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(NamedTransportAgreement, OnFinishDeadlockOrMismatch) {
  const auto [name, shard] = GetParam();
  const int programs = programs_of_transport();
  std::map<Outcome, int> seen;
  for (int number = shard; number < programs; number += kShards) {
    Case c = test::random_case(number);
    c.capabilities = transport(name, number / kShards % 2 != 0).value();
    const Outcome expected = by_naive(c);
    ++seen[expected];
    ASSERT_EQ(by_simulator(c), expected) << "program " << number;
    ASSERT_EQ(by_verifier(c), expected) << "program " << number;
    ASSERT_EQ(by_backend(c), expected) << "program " << number;
    ASSERT_EQ(by_backend(c, EmulatedOptions{c.costs}), expected) << "program " << number;
    ASSERT_NO_FATAL_FAILURE(expect_of_solver(c, expected)) << "program " << number;
  }
  expect_mix(seen, programs / kShards);
}

INSTANTIATE_TEST_SUITE_P(Shards, NamedTransportAgreement,
                         testing::Combine(testing::Values("in-process", "any", "nccl", "nccl-one-queue"),
                                          testing::Range(0, kShards)));

/// A finished run, the proof and the pool agree on the same memory.
void expect_memory_chain(const Case& c, int number) {
  const SizeTable sizes = NullModel().sizes(c.program.pipeline());
  VerifyOptions options;
  options.capabilities = c.capabilities;
  options.properties = {Property::deadlock_free, Property::memory};
  options.sizes = sizes;
  const VerifyReport report = verify(c.program, options);
  ASSERT_EQ(report.memory.size(), static_cast<std::size_t>(c.program.pipeline().ranks()))
      << "program " << number;

  const TensorTable table = tensor_table(c.program);
  const std::vector<Bytes> bytes = tensor_sizes(table, sizes);
  const SimulatedRun simulated = simulate_program(c.program, c.capabilities, c.costs).value();
  const auto peaks = replay_memory(c.program, *simulated, table, bytes);
  RunOptions run_options;
  run_options.capabilities = c.capabilities;
  run_options.unverified = true;
  const RunResult run = execute(c.program, NullModel(), run_options).value();
  const auto replayed = replay_memory(c.program, run.trace(), table, bytes);
  for (int r = 0; r < c.program.pipeline().ranks(); ++r) {
    const RankId rank(r);
    const Bytes worst = report.memory[static_cast<std::size_t>(r)].bytes;
    EXPECT_LE(peaks[rank].peak_bytes, worst) << "program " << number << ", rank " << r;
    EXPECT_LE(run.high_water_bytes[rank], worst) << "program " << number << ", rank " << r;
    EXPECT_EQ(run.high_water_bytes[rank], replayed[rank].peak_bytes)
        << "program " << number << ", rank " << r;
    EXPECT_LE(worst, run.pool_bytes[rank]) << "program " << number << ", rank " << r;
  }
}

TEST_P(Agreement, OnMemory) {
  int compared = 0;
  for (int number = GetParam(); number < kPrograms / 5; number += kShards) {
    const Case c = test::random_case(number);
    if (by_naive(c) != Outcome::finished) continue;
    ++compared;
    expect_memory_chain(c, number);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(compared, kPrograms / 5 / kShards / 5);
}

INSTANTIATE_TEST_SUITE_P(Shards, Agreement, testing::Range(0, kShards));

}  // namespace
}  // namespace ppsim::agreement_test
