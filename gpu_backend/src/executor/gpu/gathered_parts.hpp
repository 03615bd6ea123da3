#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "ppsim/core/ir/pipeline.hpp"
#include "ppsim/core/ir/tables.hpp"
#include "ppsim/core/ir/units.hpp"
#include "ppsim/gpu_backend/stage_model/gpu_stage_model.hpp"
#include "ppsim/gpu_backend/stage_model/stage_model.hpp"

namespace ppsim::gpu_backend {

/// The bytes that a member of a collective of a microbatch adds to its sum; 0 for one that sums nothing.
/// Requires: passes that it comes after.
[[nodiscard]] Bytes summand_bytes(const Collective& collective, const SizeTable& sizes);

/// The numbers that a collective sums: alike on every member, and in every process.
struct CollectiveMemory {
  ElementType type = ElementType::float64;
  Bytes bytes = 0;
};
[[nodiscard]] CollectiveMemory collective_memory(const GpuStageModel& model, const Pipeline& pipeline,
                                                 const Action& action);

/// The parts of all members of a collective of a microbatch, in ascending rank order, in the memory of one of
/// them. Each member adds its own part and zeros: the sum over the members is all parts, bit by bit, and
/// whoever has it combines them as any other would.
class GatheredParts {
 public:
  GatheredParts() = default;
  /// Of so many bytes each. Requires: the rank is a member.
  GatheredParts(const Collective& collective, RankId rank, Bytes statistics, Bytes summand);

  [[nodiscard]] Bytes bytes() const { return static_cast<Bytes>(members_ * stride_); }
  void place(std::span<std::byte> memory);
  [[nodiscard]] std::span<std::byte> memory() const { return memory_; }
  /// Each as many bytes behind the one before it.
  [[nodiscard]] std::span<const CollectivePart> all() const { return parts_; }
  [[nodiscard]] const CollectivePart& own() const { return parts_[own_]; }

  /// Starts a sum whose first member this one is.
  void begin_sum() { added_ = 0; }
  /// Goes to the next member of the sum, the last one after all.
  void add_next() { added_ = std::min(added_ + 1, members_ - 1); }
  /// Where the part of the member that is added lies in the memory of any of them.
  template <class Byte>
  [[nodiscard]] std::span<Byte> added(std::span<Byte> memory) const {
    return memory.subspan(added_ * stride_, stride_);
  }

 private:
  std::size_t members_ = 0;
  std::size_t own_ = 0;
  std::size_t statistics_ = 0;
  std::size_t summand_ = 0;
  std::size_t stride_ = 0;
  std::size_t added_ = 0;
  std::span<std::byte> memory_;
  std::vector<CollectivePart> parts_;
};

}  // namespace ppsim::gpu_backend
