#pragma once

#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "device/cuda/gpu_device.hpp"
#include "gathered_parts.hpp"
#include "gpu_channels.hpp"
#include "ppsim/gpu_backend/executor/execute.hpp"
#include "ppsim/gpu_backend/stage_model/gpu_stage_model.hpp"
#include "stage_model/tensor_map.hpp"

namespace ppsim::gpu_backend {

/// A Program to run on GPUs, its kernels, and the options of the run.
struct GpuRunInput {
  const Program& program;
  const GpuStageModel& model;
  const RunOptions& options;
  std::string identity = {};  ///< of the model that the kernels are of
};

/// The loss of one step that the gradients of a block carry.
struct BlockLoss {
  BlockId block;
  int update = 0;
  RankId rank;
  double loss = 0;
};

/// Enqueues each action of one rank: its meaning apart from when it happens. All memory beyond the
/// tensors is allocated by the constructor.
class GpuActions {
 public:
  /// Requires: references that outlive it.
  GpuActions(const GpuRunInput& input, const TensorMap& tensors, RankDevice& device);

  /// Enqueues zeros into all tensors, and as the number of the step.
  void clear_pool(GpuStream stream) const;
  /// Enqueues what exists from the step's start: parameters, and batches that no LOAD fetches.
  void begin_step(int step, GpuStream stream, const TensorTable& table);
  /// Starts a pass over the list of the rank, run or captured. `takes` says whether an OPT hands out
  /// gradients.
  void begin_pass(bool takes);
  /// Enqueues an instruction of compute or copy actions.
  void enqueue(InstructionId id, GpuStream stream);
  [[nodiscard]] std::vector<Transfer> transfers(InstructionId id) const;
  /// Enqueues what a collective does on its own rank first. Returns: the memory that remains to be summed.
  [[nodiscard]] StreamCollective collective(InstructionId id, GpuStream stream);
  /// Enqueues what it does with the sum.
  void end_collective(InstructionId id, GpuStream stream);
  /// Enqueues every kernel of a collective, on zeros.
  void rehearse_collective(InstructionId id, GpuStream stream);
  /// Whether losses wait to be taken after a step, because no OPT consumes the gradients that carry them.
  [[nodiscard]] bool has_losses_left() const;
  /// Enqueues taking those.
  void end_step(GpuStream stream);
  /// The losses of the step. Requires: their copies are complete. Order: block, update.
  [[nodiscard]] std::vector<BlockLoss> losses() const;
  /// The memory that it sums.
  [[nodiscard]] std::span<std::byte> summed(InstructionId id) const;
  /// Enqueues taking the gradients of the step that no OPT has consumed.
  void end_run(GpuStream stream);
  /// The gradients that were taken. Requires: their copies are complete.
  [[nodiscard]] std::vector<BlockGradients> gradients() const;

 private:
  /// Gradients to hand out, and the pinned memory that they and the losses behind them come out in.
  struct Taken {
    BlockGradients gradients;
    std::span<std::byte> host;
    std::span<std::byte> loss;  ///< empty: the block has none
    bool optimized = false;
    bool counts = true;  ///< in the norm: a block that several ranks hold counts on the lowest of them
  };
  /// The tensors of an action, and where its dx goes as well.
  struct ComputeBuffers {
    ActionBuffers tensors;
    std::vector<std::span<std::byte>> copies_of_dx;
  };
  using Cell = std::tuple<std::int32_t, std::int32_t, std::int32_t>;  ///< stage, microbatch, slice
  static Cell cell(const Action& a) { return {a.subject, a.microbatch, a.slice}; }

  void find_gradients();
  void find_actions();
  void reserve(InstructionId id, const Action& action);
  void find_buffers();
  /// Returns: whether the collective brings together parts of a microbatch.
  bool reserve_parts(const Action& action);
  [[nodiscard]] const GatheredParts* parts_of(const Action& action) const;
  [[nodiscard]] StreamCollective gather(StreamCollective call, GatheredParts& parts) const;
  [[nodiscard]] Taken* find(BlockId block, int update);
  void run(InstructionId id, const Action& action, GpuStream stream);
  void compute(InstructionId id, const Action& action, GpuStream stream);
  [[nodiscard]] ComputeBuffers compute_buffers(InstructionId id, const Action& action) const;
  void optimize(const Action& action, GpuStream stream);
  void move(const Payload& to, const Payload& from, GpuStream stream);
  [[nodiscard]] std::span<std::byte> gradients_of(const Taken& taken) const;
  void take(const Taken& taken, GpuStream stream);
  void take_loss(const Taken& taken, GpuStream stream);
  void keep_newest_parameters(GpuStream stream);
  [[nodiscard]] const std::int64_t* step() const {
    return reinterpret_cast<const std::int64_t*>(step_.data());
  }
  /// Of an action in the list of the rank: how many stand before it.
  [[nodiscard]] std::size_t number_of(const Action& action) const {
    return static_cast<std::size_t>(&action - program_.actions(program_.first(device_.rank())).data());
  }
  void unshard(InstructionId id, StageId stage, GpuStream stream);
  [[nodiscard]] std::span<std::byte> norm(int update) const {
    return norms_.subspan(static_cast<std::size_t>(update) * sizeof(double), sizeof(double));
  }
  void begin_norm(int update, GpuStream stream);
  [[nodiscard]] bool is_norm(const Action& action) const;
  void copy_part(GpuStream stream, std::span<std::byte> to, std::span<const std::byte> from) const;
  /// The tensors of a collective of a microbatch; empty for any other.
  [[nodiscard]] CollectiveBuffers buffers_of(InstructionId id, const Action& action) const;
  [[nodiscard]] ActionPlace place(InstructionId id) const { return {device_.rank(), id}; }

  const Program& program_;
  const Pipeline& pipeline_;
  const GpuStageModel& model_;
  const RunOptions& options_;
  const TensorMap& tensors_;
  RankDevice& device_;
  std::unique_ptr<GpuStages> stages_;
  std::vector<BlockId> blocks_;  ///< that the rank has a share of
  std::vector<Taken> taken_;     ///< by block, update
  /// Per action of the rank: the tensors of one that computes, where the Program has all that it needs.
  std::vector<std::optional<ComputeBuffers>> buffers_;
  std::map<Cell, Payload> host_copies_;
  std::map<InstructionId, std::span<std::byte>>
      summed_;  ///< summed by a collective that has no tensor to sum
  std::map<CollectiveId, GatheredParts> gathered_;
  std::vector<std::span<std::byte>> newest_;  ///< per block: room for its newest version
  std::span<std::byte> norms_;                ///< a double for each update
  std::span<std::byte> step_;                 ///< number of the step, which every pass reads
  std::vector<bool> norm_known_;              ///< per update, in this pass
  bool takes_ = false;
};

}  // namespace ppsim::gpu_backend
