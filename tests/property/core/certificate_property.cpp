#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "ppsim/core/certificate/certificate.hpp"
#include "ppsim/core/execution/naive_executor.hpp"
#include "ppsim/core/execution/well_formed.hpp"
#include "ppsim/core/ir/hash.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/core/memory/tensor_order.hpp"
#include "ppsim/schedules/registry.hpp"
#include "support/random_program.hpp"
#include "support/random_schedule.hpp"

namespace ppsim::test {
namespace {

/// Every tensor has one byte; each rank's bound is that of no reuse at all.
SizeTable one_byte_each() {
  SizeTable sizes;
  for (int kind = 0; kind < kTensorKindCount; ++kind) sizes.set({.kind = static_cast<TensorKind>(kind)}, 1);
  return sizes;
}

Certificate without_reuse(const Program& program, const SizeTable& sizes,
                          const TransportCapabilities& capabilities) {
  Certificate certificate{.program_hash = program_hash(program),
                          .sizes_hash = sizes_hash(sizes),
                          .capabilities_hash = capabilities_hash(capabilities),
                          .capabilities = capabilities,
                          .properties = {"well_formed", "matched", "deadlock_free", "memory"},
                          .order = run_order(build_execution_graph(program, capabilities)).items};
  for (int r = 0; r < program.pipeline().ranks(); ++r)
    certificate.memory.push_back({RankId(r), 1'000'000, {}});
  return certificate;
}

/// The checker asks the clocks of the ranks alone first, and follows some tracks over all ranks where they do
/// not tell: neither may change what it finds.
RC_GTEST_PROP(Certificate, AReuseIsAcceptedExactlyWhereItHoldsInEveryTiming, ()) {
  const Schedule schedule = *schedules(general_shapes());
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const Program program = random_program(schedule, 0, seed);
  const TransportCapabilities capabilities = random_capabilities(false, seed);
  const ExecutionGraph graph = build_execution_graph(program, guaranteed(capabilities));
  const RunOrder order = run_order(build_execution_graph(program, capabilities));
  RC_PRE(order.complete && well_formed_violations(program).empty() && match_violations(program).empty());
  const SizeTable sizes = one_byte_each();
  const TensorTable table = tensor_table(program);
  const std::vector<Bytes> bytes = tensor_sizes(table, sizes);
  Certificate certificate = without_reuse(program, sizes, capabilities);
  RC_ASSERT(check_certificate(certificate, program, &sizes).has_value());
  for (MemoryWitness& witness : certificate.memory) {
    const TensorOrder tensors(
        table, HappensBefore::of_rank(program, graph, ClockPlan(graph, order), witness.rank), witness.rank);
    for (int i = 0; i < 4; ++i) {
      const auto a = *rc::gen::inRange(tensors.first(), tensors.last());
      const auto b = *rc::gen::inRange(tensors.first(), tensors.last());
      if (bytes[a] == 0 || bytes[b] == 0) continue;
      witness.reuse = {{a, b, 1}};
      RC_ASSERT(check_certificate(certificate, program, &sizes).has_value() == tensors.before(a, b));
    }
    witness.reuse.clear();
  }
}

/// Statistics of vocabulary shards are last used by a collective, and a rank hears of its end from neighbours
/// before its own member has ended.
TEST(Certificate, NoReuseCountsOnAnotherMembersEndOfACollective) {
  const Program program = lower(generate("vocab-1", {.ranks = 2, .microbatches = 4}).value(), {}).value();
  const ExecutionGraph graph = build_execution_graph(program, rendezvous());
  const SizeTable sizes = one_byte_each();
  const TensorTable table = tensor_table(program);
  const std::vector<Bytes> bytes = tensor_sizes(table, sizes);
  const auto ends_with_a_collective = [&](const Tensor& tensor) {
    return std::ranges::any_of(table.users_of(tensor),
                               [&](InstructionId id) { return graph.match_of[id.index()] >= 0; });
  };
  Certificate certificate = without_reuse(program, sizes, rendezvous());
  int refused = 0;
  for (MemoryWitness& witness : certificate.memory) {
    const ClockPlan plan(graph, run_order(graph));
    const TensorOrder tensors(table, HappensBefore::of_rank(program, graph, plan, witness.rank),
                              witness.rank);
    for (std::uint32_t a = tensors.first(); a < tensors.last(); ++a) {
      if (bytes[a] == 0 || !ends_with_a_collective(table.tensors[a])) continue;
      for (std::uint32_t b = tensors.first(); b < tensors.last(); ++b) {
        if (bytes[b] == 0) continue;
        witness.reuse = {{a, b, 1}};
        const auto checked = check_certificate(certificate, program, &sizes);
        const bool accepted = checked.has_value();
        EXPECT_EQ(accepted, tensors.before(a, b))
            << a << ' ' << b << (accepted ? "" : ": " + checked.error().message);
        refused += accepted ? 0 : 1;
      }
    }
    witness.reuse.clear();
  }
  EXPECT_GT(refused, 0);
}

/// The tensors of a rank, of one byte, that are over before another one begins.
std::vector<Reuse> reuses(const Program& program, const TensorTable& table,
                          const TransportCapabilities& capabilities, RankId rank) {
  const std::vector<Bytes> bytes = tensor_sizes(table, one_byte_each());
  const ExecutionGraph graph = build_execution_graph(program, capabilities);
  const TensorOrder tensors(
      table, HappensBefore::of_rank(program, graph, ClockPlan(graph, run_order(graph)), rank), rank);
  std::vector<Reuse> found;
  for (std::uint32_t a = tensors.first(); a < tensors.last(); ++a) {
    for (std::uint32_t b = tensors.first(); b < tensors.last(); ++b) {
      if (bytes[a] > 0 && bytes[b] > 0 && tensors.before(a, b)) found.push_back({a, b, 1});
    }
  }
  return found;
}

bool is_accepted(const Reuse& reuse, const Program& program, const TransportCapabilities& capabilities,
                 RankId rank) {
  const SizeTable sizes = one_byte_each();
  Certificate certificate = without_reuse(program, sizes, capabilities);
  certificate.memory[rank.index()].reuse = {reuse};
  return check_certificate(certificate, program, &sizes).has_value();
}

RC_GTEST_PROP(Certificate, AReuseThatRestsOnCreditsIsAcceptedWhereTheyAreFew, ()) {
  RandomShape shape{.ranks = 2, .chunks = 3, .microbatches = 3};
  shape.general = *rc::gen::arbitrary<bool>();
  auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const TransportCapabilities few{.credits = *rc::gen::inRange(1, 3)};
  const TransportCapabilities ample{.credits = 1'000'000};
  for (int i = 0; i < 5; ++i, ++seed) {
    const Program program = late_program(random_schedule(shape, seed), seed);
    if (!run_order(build_execution_graph(program, few)).complete) continue;
    const TensorTable table = tensor_table(program);
    for (int r = 0; r < program.pipeline().ranks(); ++r) {
      const std::vector<Reuse> anyway = reuses(program, table, ample, RankId(r));
      for (const Reuse& reuse : reuses(program, table, few, RankId(r))) {
        if (std::ranges::count(anyway, reuse) > 0) continue;
        RC_ASSERT(is_accepted(reuse, program, few, RankId(r)));
        RC_ASSERT(!is_accepted(reuse, program, ample, RankId(r)));
      }
    }
  }
}

RC_GTEST_PROP(Certificate, OfAmpleCreditsIsNoneOfTooFew, ()) {
  RandomShape shape{.ranks = 2, .chunks = 2};
  shape.microbatches = *rc::gen::inRange(2, 5);
  auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const TransportCapabilities few{.credits = 1};
  const SizeTable sizes = one_byte_each();
  for (int i = 0; i < 10; ++i, ++seed) {
    const Program program = late_program(random_schedule(shape, seed), seed);
    const RunOrder order = run_order(build_execution_graph(program, {.credits = 1'000'000}));
    const bool hangs = run_naively(program, few, CostTable()).outcome == NaiveRun::Outcome::deadlock;
    if (!order.complete || !hangs) continue;
    Certificate certificate = without_reuse(program, sizes, few);
    certificate.order = order.items;
    RC_ASSERT(!check_certificate(certificate, program, &sizes).has_value());
    RC_TAG("hangs with one credit");
  }
}

}  // namespace
}  // namespace ppsim::test
