#include "memory_meter.hpp"

#include <algorithm>
#include <utility>

namespace ppsim::gpu_backend {

MemoryMeter::Touched MemoryMeter::index(std::size_t instructions, const TensorTable& table,
                                        std::span<const InstructionId> (TensorTable::*list)(const Tensor&)
                                            const) {
  Touched result;
  result.begin.assign(instructions + 1, 0);
  for (const Tensor& tensor : table.tensors) {
    for (const InstructionId id : (table.*list)(tensor)) ++result.begin[id.index() + 1];
  }
  for (std::size_t i = 0; i < instructions; ++i) result.begin[i + 1] += result.begin[i];
  result.tensors.resize(result.begin.back());
  std::vector<std::uint32_t> fill(result.begin.begin(), result.begin.end() - 1);
  for (std::uint32_t t = 0; t < table.tensors.size(); ++t) {
    for (const InstructionId id : (table.*list)(table.tensors[t])) result.tensors[fill[id.index()]++] = t;
  }
  return result;
}

MemoryMeter::MemoryMeter(const Program& program, const MemoryPlan& plan,
                         std::function<void(std::uint32_t)> on_free)
    : plan_(plan),
      on_free_(std::move(on_free)),
      written_(index(program.size(), plan.table, &TensorTable::writers_of)),
      used_(index(program.size(), plan.table, &TensorTable::users_of)),
      high_water_(as_size(program.pipeline().ranks()), 0) {}

void MemoryMeter::begin_step() {
  const std::vector<Tensor>& tensors = plan_.table.tensors;
  alive_ = IdVector<RankId, Bytes>(high_water_.size(), 0);
  life_.assign(tensors.size(), Life::before);
  open_users_.clear();
  for (std::uint32_t t = 0; t < tensors.size(); ++t) {
    open_users_.push_back(tensors[t].user_count);
    if (tensors[t].from_start) allocate(t);
  }
}

void MemoryMeter::allocate(std::uint32_t tensor) {
  if (life_[tensor] != Life::before) return;
  life_[tensor] = Life::alive;
  const RankId rank = plan_.table.tensors[tensor].rank;
  alive_[rank] += plan_.sizes[tensor];
  high_water_[rank] = std::max(high_water_[rank], alive_[rank]);
}

void MemoryMeter::start(InstructionId id) {
  for (const std::uint32_t tensor : written_.of(id)) allocate(tensor);
}

bool MemoryMeter::used_again(std::uint32_t tensor) const {
  const Bytes begin = plan_.slots.offset[tensor];
  const Bytes end = begin + plan_.sizes[tensor];
  for (std::uint32_t t = 0; t < life_.size(); ++t) {
    if (t == tensor || life_[t] != Life::alive ||
        plan_.table.tensors[t].rank != plan_.table.tensors[tensor].rank)
      continue;
    if (plan_.slots.offset[t] < end && begin < plan_.slots.offset[t] + plan_.sizes[t]) return true;
  }
  return false;
}

void MemoryMeter::complete(InstructionId id) {
  for (const std::uint32_t t : used_.of(id)) {
    if (--open_users_[t] > 0 || plan_.table.tensors[t].to_end) continue;
    if (life_[t] == Life::alive) {
      alive_[plan_.table.tensors[t].rank] -= plan_.sizes[t];
      on_free_(t);
    }
    life_[t] = Life::over;
  }
}

}  // namespace ppsim::gpu_backend
