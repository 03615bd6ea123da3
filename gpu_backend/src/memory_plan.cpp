#include "memory_plan.hpp"

namespace ppsim {
namespace {

constexpr Bytes kAlignment = 64;

Bytes aligned(Bytes size) { return checked_add(size, kAlignment - 1) / kAlignment * kAlignment; }

SlotPlan separate_slots(const Program& program, const TensorTable& table, const std::vector<Bytes>& sizes) {
  SlotPlan plan;
  plan.pool_bytes = IdVector<RankId, Bytes>(static_cast<std::size_t>(program.pipeline().ranks()), 0);
  for (std::size_t t = 0; t < table.tensors.size(); ++t) {
    Bytes& pool = plan.pool_bytes[table.tensors[t].rank];
    plan.offset.push_back(pool);
    pool = checked_add(pool, aligned(sizes[t]));
  }
  return plan;
}

}  // namespace

MemoryPlan plan_memory(const Program& program, const ExecutionGraph& graph, const SizeTable& sizes) {
  MemoryPlan plan;
  plan.table = tensor_table(program);
  plan.sizes = tensor_sizes(plan.table, sizes);
  const RunOrder order = run_order(graph);
  plan.slots = order.complete ? plan_slots({program, graph, order, plan.table, plan.sizes, kAlignment})
                              : separate_slots(program, plan.table, plan.sizes);
  return plan;
}

}  // namespace ppsim
