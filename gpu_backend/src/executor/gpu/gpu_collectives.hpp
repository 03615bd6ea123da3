#pragma once

#include <map>
#include <span>

#include "device/cuda/gpu_device.hpp"
#include "executor/rank_actions.hpp"
#include "gathered_parts.hpp"
#include "gpu_channels.hpp"

namespace ppsim::gpu_backend {

/// One rank of a run on GPUs.
struct GpuRank {
  RankDevice& device;
  GpuStages& stages;
  RankActions& actions;
};

/// The collectives of one rank as sums in place, which is all that a stream can do: a gather adds parts to
/// zeros, and a rank that has nothing to sum adds zeros. The constructor allocates all memory beyond the
/// tensors.
class GpuCollectives {
 public:
  /// Requires: references that outlive it.
  GpuCollectives(const ActionInput& input, const GpuStageModel& model, const GpuRank& rank);

  /// Enqueues zeros into the memory of sums without a tensor.
  void begin_run(GpuStream stream) const;
  /// Enqueues what a collective does on its own rank first. Returns: the memory that remains to be summed.
  [[nodiscard]] StreamCollective begin(InstructionId id, GpuStream stream);
  /// Enqueues what it does with the sum.
  void end(InstructionId id, GpuStream stream);
  /// Enqueues every kernel of a collective, on zeros.
  void warm_up(InstructionId id, GpuStream stream);
  /// The memory that it sums.
  [[nodiscard]] std::span<std::byte> summed(InstructionId id) const;

 private:
  void reserve(InstructionId id, const Action& action);
  /// Returns: whether the collective brings together parts of a microbatch.
  bool reserve_parts(const Action& action);
  [[nodiscard]] const GatheredParts* parts_of(const Action& action) const;
  [[nodiscard]] StreamCollective gather(StreamCollective call, const CollectiveCall& own,
                                        GatheredParts& parts) const;
  void copy_part(GpuStream stream, std::span<std::byte> to, std::span<const std::byte> from) const;
  [[nodiscard]] std::span<std::byte> gradients(const Action& action) const;
  void add_to_total(const Action& action, GpuStream stream) const;

  const Program& program_;
  const TensorMap& tensors_;
  const GpuStageModel& model_;
  GpuRank rank_;
  std::map<InstructionId, std::span<std::byte>> summed_;  ///< by one that has no tensor to sum
  std::map<CollectiveId, GatheredParts> gathered_;
};

}  // namespace ppsim::gpu_backend
