#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "memory_plan.hpp"

namespace ppsim::gpu_backend {

/// Sums the sizes of the tensors alive on each rank as instructions start and complete. Not thread-safe.
class MemoryMeter {
 public:
  /// `on_free` is told of each tensor that is freed.
  MemoryMeter(const Program& program, const MemoryPlan& plan, std::function<void(std::uint32_t)> on_free);

  /// Back to the step's start; the high-water marks stay.
  void begin_step();
  void start(InstructionId id);
  void complete(InstructionId id);
  /// True where another tensor that is alive has bytes of this one.
  [[nodiscard]] bool used_again(std::uint32_t tensor) const;

  [[nodiscard]] const IdVector<RankId, Bytes>& high_water() const { return high_water_; }

 private:
  enum class Life : std::uint8_t { before, alive, over };
  /// Tensors of each instruction, compressed rows.
  struct Touched {
    std::vector<std::uint32_t> begin;
    std::vector<std::uint32_t> tensors;
    [[nodiscard]] std::span<const std::uint32_t> of(InstructionId id) const {
      return {tensors.data() + begin[id.index()], begin[id.index() + 1] - begin[id.index()]};
    }
  };
  static Touched index(std::size_t instructions, const TensorTable& table,
                       std::span<const InstructionId> (TensorTable::*list)(const Tensor&) const);
  void allocate(std::uint32_t tensor);

  const MemoryPlan& plan_;
  std::function<void(std::uint32_t)> on_free_;
  Touched written_;
  Touched used_;
  std::vector<Life> life_;                 ///< per tensor
  std::vector<std::uint32_t> open_users_;  ///< per tensor
  IdVector<RankId, Bytes> alive_;
  IdVector<RankId, Bytes> high_water_;
};

}  // namespace ppsim::gpu_backend
