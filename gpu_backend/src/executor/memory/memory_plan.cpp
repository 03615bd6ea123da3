#include "memory_plan.hpp"

#include <algorithm>
#include <string>

#include "ppsim/gpu_backend/executor/backend_error.hpp"

namespace ppsim::gpu_backend {
namespace {

Bytes slot_aligned(Bytes size) {
  return checked_add(size, kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment;
}

SlotPlan separate_slots(const Program& program, const TensorTable& table, const std::vector<Bytes>& sizes) {
  SlotPlan plan;
  plan.pool_bytes = IdVector<RankId, Bytes>(as_size(program.pipeline().ranks()), 0);
  for (std::size_t t = 0; t < table.tensors.size(); ++t) {
    Bytes& pool = plan.pool_bytes[table.tensors[t].rank];
    plan.offset.push_back(pool);
    pool = checked_add(pool, slot_aligned(sizes[t]));
  }
  return plan;
}

void check_fits(const SlotPlan& slots, std::optional<Bytes> limit) {
  const std::vector<Bytes>& pools = slots.pool_bytes.items();
  const auto largest = std::ranges::max_element(pools);
  if (!limit || largest == pools.end() || *largest <= *limit) return;
  throw BackendError(ErrorCode::does_not_fit,
                     "it does not fit: the pool of rank " + std::to_string(largest - pools.begin()) +
                         " takes " + std::to_string(*largest) + " of " + std::to_string(*limit) + " bytes");
}

}  // namespace

MemoryPlan plan_memory(const AnalyzedProgram& analyzed, const SizeTable& sizes, std::optional<Bytes> limit) {
  MemoryPlan plan;
  plan.table = analyzed.tensors();
  plan.sizes = tensor_sizes(plan.table, sizes);
  if (!analyzed.guaranteed_order().complete) {
    plan.slots = separate_slots(analyzed.program(), plan.table, plan.sizes);
    return plan;
  }
  plan.slots = plan_slots(analyzed, plan.sizes);
  check_fits(plan.slots, limit);
  return plan;
}

}  // namespace ppsim::gpu_backend
