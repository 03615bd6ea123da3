#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "ppsim/core/execution/naive_executor.hpp"
#include "ppsim/core/memory/slot_plan.hpp"
#include "support/blocked_run.hpp"
#include "support/random_program.hpp"
#include "support/random_schedule.hpp"

namespace ppsim::test {
namespace {

/// Sizes of 1 to 300 bytes that differ by kind.
SizeTable random_sizes(std::uint64_t seed) {
  SizeTable sizes;
  for (int kind = 0; kind < kTensorKindCount; ++kind) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    const SizeClass size_class{.kind = static_cast<TensorKind>(kind)};
    sizes.set(size_class, 1 + static_cast<Bytes>((seed >> 33) % 300));
  }
  sizes.set({.kind = TensorKind::workspace, .op = OpKind::backward}, 77);
  return sizes;
}

/// A Program that finishes, and what the plan is made of.
struct Planned {
  AnalyzedProgram analyzed;
  std::vector<Bytes> sizes;
  const Program& program = analyzed.program();
  const ExecutionGraph& graph = analyzed.guaranteed_graph();
  const TensorTable& table = analyzed.tensors();

  [[nodiscard]] SlotPlan plan(Bytes alignment = kSlotAlignment) const {
    return plan_slots_within(analyzed, sizes, {}, alignment).value();
  }
};

Planned random_planned() {
  const Schedule schedule = *schedules(general_shapes());
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const AnalyzedProgram analyzed(random_program(schedule, *rc::gen::inRange(0, 3), seed),
                                 random_capabilities(false, seed));
  RC_PRE(analyzed.order().complete);
  return {analyzed, tensor_sizes(analyzed.tensors(), random_sizes(seed))};
}

/// Whether some timing has both tensors alive: `b` is allocated while a user of `a` is not over.
bool may_start_within(const Planned& p, const Tensor& a, const Tensor& b) {
  if (b.from_start) return true;
  if (a.to_end) return true;
  for (const InstructionId user : p.table.users_of(a)) {
    for (const Obstacle& part : parts_of(p.graph, user)) {
      const BlockedRun run = run_without(p.graph, part);
      for (const InstructionId writer : p.table.writers_of(b)) {
        if (run.started[writer.index()] != 0) return true;
      }
    }
  }
  return false;
}

bool overlap(const Planned& p, const SlotPlan& plan, std::size_t a, std::size_t b) {
  return plan.offset[a] < plan.offset[b] + p.sizes[b] && plan.offset[b] < plan.offset[a] + p.sizes[a];
}

RC_GTEST_PROP(SlotPlan, SharesOnlyWhatNoTimingNeedsAtOnce, ()) {
  const Planned p = random_planned();
  RC_PRE(p.program.size() < 60);
  const SlotPlan plan = p.plan(16);
  for (std::size_t a = 0; a < p.table.tensors.size(); ++a) {
    const Tensor& tensor = p.table.tensors[a];
    RC_ASSERT(plan.offset[a] % 16 == 0);
    RC_ASSERT(plan.offset[a] + p.sizes[a] <= plan.pool_bytes[tensor.rank]);
    for (std::size_t b = a + 1; b < p.table.tensors.size(); ++b) {
      const Tensor& other = p.table.tensors[b];
      if (other.rank != tensor.rank || !overlap(p, plan, a, b)) continue;
      RC_ASSERT(!may_start_within(p, tensor, other) || !may_start_within(p, other, tensor));
    }
  }
}

RC_GTEST_PROP(SlotPlan, HoldsTheRunsOfAnyCosts, ()) {
  const Planned p = random_planned();
  const SlotPlan plan = p.plan(1);
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const NaiveRun run =
      run_naively(p.program, p.graph.capabilities, random_costs(p.program.pipeline().stages(), seed));
  const auto profiles = replay_memory(p.program, run.trace, p.table, p.sizes);
  for (int r = 0; r < p.program.pipeline().ranks(); ++r) {
    RC_ASSERT(profiles[RankId(r)].peak_bytes <= plan.pool_bytes[RankId(r)]);
  }
}

/// On one queue lifetimes are intervals in every timing. Placing intervals of one size in order of their
/// births leaves no holes.
RC_GTEST_PROP(SlotPlan, OfEqualTensorsOnOneQueueIsTheWorstCase, ()) {
  RandomShape shape = *general_shapes();
  shape.ranks = 1;
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const Program program = random_program(random_schedule(shape, seed), 0, seed);
  const AnalyzedProgram analyzed(program, rendezvous());
  RC_PRE(std::ranges::all_of(program.all_actions(),
                             [](const Action& a) { return info(a.kind).resource == Resource::compute; }));
  const std::vector<Bytes> sizes(analyzed.tensors().tensors.size(), 1);
  const SlotPlan plan = plan_slots_within(analyzed, sizes, {}, 1).value();
  const NaiveRun run = run_naively(program, rendezvous(), random_costs(shape.chunks, seed));
  RC_ASSERT(plan.pool_bytes[RankId(0)] ==
            replay_memory(program, run.trace, analyzed.tensors(), sizes)[RankId(0)].peak_bytes);
}

RC_GTEST_PROP(SlotPlan, IsTheSameEveryTime, ()) {
  const Planned p = random_planned();
  const SlotPlan one = plan_slots(p.analyzed, p.sizes);
  const SlotPlan two = plan_slots(p.analyzed, p.sizes);
  RC_ASSERT(one.offset == two.offset);
  RC_ASSERT(one.pool_bytes == two.pool_bytes);
}

}  // namespace
}  // namespace ppsim::test
