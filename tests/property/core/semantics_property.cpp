#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "ppsim/core/certificate/certificate.hpp"
#include "ppsim/core/execution/execution_graph.hpp"
#include "ppsim/core/execution/naive_executor.hpp"
#include "ppsim/core/execution/well_formed.hpp"
#include "ppsim/core/ir/hash.hpp"
#include "ppsim/core/memory/tensors.hpp"
#include "support/random_program.hpp"
#include "support/random_schedule.hpp"

namespace ppsim::test {
namespace {

Program any_program(int max_mutations, int min_mutations = 0) {
  const Schedule schedule = *schedules(general_shapes());
  const int mutations = *rc::gen::inRange(min_mutations, max_mutations + 1);
  return random_program(schedule, mutations, *rc::gen::arbitrary<std::uint64_t>());
}

TransportCapabilities any_capabilities(bool with_residency) {
  return random_capabilities(with_residency, *rc::gen::arbitrary<std::uint64_t>());
}

CostTable any_costs(const Program& program) {
  return random_costs(program.pipeline().stages(), *rc::gen::arbitrary<std::uint64_t>());
}

std::vector<InstructionId> incomplete_by_graph(const RunOrder& order, std::size_t size) {
  std::vector<InstructionId> incomplete;
  std::vector<char> complete(size, 0);
  for (const std::uint32_t item : order.items) complete[item / 2] |= item % 2 == 1;
  for (std::size_t i = 0; i < size; ++i) {
    if (complete[i] == 0) incomplete.emplace_back(static_cast<std::int32_t>(i));
  }
  return incomplete;
}

RC_GTEST_PROP(NaiveExecutor, AgreesWithTheExecutionGraph, ()) {
  const Program program = any_program(4);
  const TransportCapabilities capabilities = any_capabilities(false);
  const NaiveRun run = run_naively(program, capabilities, any_costs(program));
  RC_ASSERT((run.outcome == NaiveRun::Outcome::mismatch) == !match_violations(program).empty());
  if (run.outcome == NaiveRun::Outcome::mismatch) return;
  const RunOrder order = run_order(build_execution_graph(program, capabilities));
  RC_ASSERT(order.complete == (run.outcome == NaiveRun::Outcome::finished));
  RC_ASSERT(run.incomplete == incomplete_by_graph(order, program.size()));
}

RC_GTEST_PROP(NaiveExecutor, DurationsDecideNothingWithoutResidency, ()) {
  const Program program = any_program(4);
  const TransportCapabilities capabilities = any_capabilities(false);
  const NaiveRun one = run_naively(program, capabilities, any_costs(program));
  const NaiveRun two = run_naively(program, capabilities, any_costs(program));
  RC_ASSERT(one.outcome == two.outcome);
  RC_ASSERT(one.incomplete == two.incomplete);
  if (one.outcome == NaiveRun::Outcome::mismatch) return;
  const auto deadlock = can_deadlock(program, capabilities, 1);
  RC_ASSERT(deadlock == (one.outcome == NaiveRun::Outcome::deadlock));
}

RC_GTEST_PROP(NaiveExecutor, ADeadlockOfOneArbitrationIsFoundAmongAll, ()) {
  const Program program = any_program(1);
  RC_PRE(program.size() < 40);
  const TransportCapabilities capabilities = any_capabilities(true);
  const NaiveRun run = run_naively(program, capabilities, any_costs(program));
  RC_PRE(run.outcome != NaiveRun::Outcome::mismatch);
  const auto deadlock = can_deadlock(program, capabilities, 20'000);
  if (deadlock && run.outcome == NaiveRun::Outcome::deadlock) RC_ASSERT(*deadlock);
  TransportCapabilities unlimited = capabilities;
  unlimited.residency.reset();
  // A Program that deadlocks without a limit deadlocks under any.
  if (deadlock && can_deadlock(program, unlimited, 1) == true) RC_ASSERT(*deadlock);
}

RC_GTEST_PROP(Tensors, AnyProgramHasASoundTable, ()) {
  const Program program = any_program(6);
  const TensorTable table = tensor_table(program);
  for (const Tensor& tensor : table.tensors) {
    const auto writers = table.writers_of(tensor);
    const auto users = table.users_of(tensor);
    RC_ASSERT(tensor.from_start || !writers.empty());
    RC_ASSERT(tensor.to_end || !users.empty());
    RC_ASSERT(std::is_sorted(writers.begin(), writers.end()));
    RC_ASSERT(std::is_sorted(users.begin(), users.end()));
    RC_ASSERT(std::adjacent_find(users.begin(), users.end()) == users.end());
    RC_ASSERT(std::includes(users.begin(), users.end(), writers.begin(), writers.end()));
    for (const InstructionId user : users) RC_ASSERT(program.rank_of(user) == tensor.rank);
  }
}

RC_GTEST_PROP(Tensors, AWellFormedProgramWritesEveryTensorOnceButSumsAndUpdates, ()) {
  const Program program = any_program(0);
  RC_PRE(well_formed_violations(program).empty());
  const TensorTable table = tensor_table(program);
  for (const Tensor& tensor : table.tensors) {
    const TensorKind kind = tensor.size_class.kind;
    const bool grows =
        kind == TensorKind::gradients || kind == TensorKind::boundary_input || kind == TensorKind::parameters;
    RC_ASSERT(grows || table.writers_of(tensor).size() <= 1U);
  }
}

/// A start or completion, drawn from those that may come next, until all are there.
std::vector<std::uint32_t> shuffled_order(const ExecutionGraph& graph, std::vector<std::uint32_t> order) {
  auto seed = *rc::gen::arbitrary<std::uint64_t>();
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i + 1 < order.size(); ++i) {
      seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
      const InstructionId a(static_cast<std::int32_t>(order[i] / 2));
      const InstructionId b(static_cast<std::int32_t>(order[i + 1] / 2));
      // Starts of computation that does not wait for the item before it may move forward.
      const auto before = graph.predecessors_of(b);
      const bool free = order[i + 1] % 2 == 0 && std::find(before.begin(), before.end(), a) == before.end();
      if (free && (seed >> 40) % 2 == 0) std::swap(order[i], order[i + 1]);
    }
  }
  return order;
}

Certificate certificate_of(const Program& program, const TransportCapabilities& capabilities,
                           std::vector<std::uint32_t> order) {
  Certificate certificate;
  certificate.program_hash = program_hash(program);
  certificate.capabilities_hash = capabilities_hash(capabilities);
  certificate.capabilities = capabilities;
  certificate.properties = {"well_formed", "matched", "deadlock_free"};
  certificate.order = std::move(order);
  return certificate;
}

RC_GTEST_PROP(Certificate, EveryOrderOfAWellFormedProgramHolds, ()) {
  const Program program = any_program(0);
  const TransportCapabilities capabilities = any_capabilities(false);
  const ExecutionGraph graph = build_execution_graph(program, capabilities);
  const RunOrder order = run_order(graph);
  RC_PRE(order.complete && well_formed_violations(program).empty());
  const auto shuffled = shuffled_order(graph, order.items);
  RC_ASSERT(check_certificate(certificate_of(program, capabilities, shuffled), program, nullptr).has_value());
}

RC_GTEST_PROP(Certificate, AnInstructionMovedBeforeWhatItWaitsForIsRefused, ()) {
  const Program program = any_program(0);
  const TransportCapabilities capabilities = any_capabilities(false);
  const ExecutionGraph graph = build_execution_graph(program, capabilities);
  std::vector<std::uint32_t> order = run_order(graph).items;
  RC_PRE(order.size() == 2 * program.size());
  const auto moved = static_cast<std::uint32_t>(*rc::gen::inRange<std::size_t>(0, program.size()));
  RC_PRE(!graph.predecessors_of(InstructionId(static_cast<std::int32_t>(moved))).empty());
  std::erase(order, 2 * moved);
  order.insert(order.begin(), 2 * moved);
  RC_ASSERT(!check_certificate(certificate_of(program, capabilities, order), program, nullptr).has_value());
}

/// A Program that finishes has a certificate; one that does not has none, for any claimed order.
RC_GTEST_PROP(Certificate, NoneForAProgramThatDoesNotFinish, ()) {
  const Program program = any_program(9, 5);
  const TransportCapabilities capabilities = any_capabilities(false);
  const NaiveRun run = run_naively(program, capabilities, CostTable());
  RC_PRE(run.outcome != NaiveRun::Outcome::finished);
  std::vector<std::uint32_t> order = run_order(build_execution_graph(program, capabilities)).items;
  std::vector<char> seen(2 * program.size(), 0);
  for (const std::uint32_t item : order) seen[item] = 1;
  for (std::uint32_t item = 0; item < seen.size(); ++item) {
    if (seen[item] == 0) order.push_back(item);
  }
  RC_ASSERT(!check_certificate(certificate_of(program, capabilities, order), program, nullptr).has_value());
}

}  // namespace
}  // namespace ppsim::test
