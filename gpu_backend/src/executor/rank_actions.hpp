#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "device/device.hpp"
#include "ppsim/gpu_backend/executor/execute.hpp"
#include "stage_model/tensor_map.hpp"

namespace ppsim::gpu_backend {

/// A Program with the tensors and the options of a run of it.
struct ActionInput {
  const Program& program;
  const StageModel& model;
  const RunOptions& options;
  const TensorMap& tensors;
};

/// The loss of one step that the gradients of a block carry.
struct BlockLoss {
  BlockId block;
  int update = 0;
  RankId rank;
  double loss = 0;
};

/// The meaning of the actions of one rank, on whatever device: which tensors each of them reads and writes,
/// and in which order. When an instruction runs, and how its messages and sums move, is up to others. All
/// memory beyond the tensors is allocated by the constructor. Each call works on the stream that it is given.
/// Calls for instructions that do not depend on each other may come at the same time.
/// Errors: throws BackendError.
class RankActions {
 public:
  /// Requires: references that outlive it.
  RankActions(const ActionInput& input, Device& device, Stages& stages);

  /// Makes what exists from the step's start: parameters, and batches that no LOAD fetches.
  void begin_step(int step, GpuStream stream, const TensorTable& table);
  /// Starts a pass over the list of the rank. `takes` says whether an OPT hands out gradients.
  void begin_pass(bool takes);
  /// Runs an instruction of compute or copy actions.
  void run(InstructionId id, GpuStream stream);
  /// The ends of an instruction of transfers, with the pieces that they move. Both ends of a message have the
  /// same: activations lent to another rank are one tensor there, cut as their owner's are.
  [[nodiscard]] std::vector<Transfer> transfers(InstructionId id) const;
  /// Runs what a collective does on its own rank first. Returns: the part of the rank in it.
  [[nodiscard]] CollectiveCall collective(InstructionId id, GpuStream stream);
  /// True where losses wait to be copied out after a step, because no OPT consumes the gradients that carry
  /// them.
  [[nodiscard]] bool has_losses_left() const;
  /// Takes those.
  void end_step(GpuStream stream);
  /// Takes the gradients of the step that no OPT has consumed.
  void end_run(GpuStream stream);

  /// The losses of the step that were copied out, and the gradients of the last one, as OPT found them where
  /// there is one. Requires: work on the stream that took them is complete. Order: block, update.
  [[nodiscard]] std::vector<BlockLoss> losses() const;
  [[nodiscard]] std::vector<BlockGradients> gradients() const;

  /// Zeros in all tensors, and as the number of the step.
  void clear(GpuStream stream) const;
  /// True of a collective that sums the norm of the gradients; and the memory of an update's norm.
  [[nodiscard]] bool is_norm(const Action& action) const;
  [[nodiscard]] std::span<std::byte> norm(int update) const {
    return norms_.subspan(as_size(update) * sizeof(double), sizeof(double));
  }

 private:
  /// Gradients to hand out, and the host memory that they and the losses behind them come out in.
  struct GradientOutput {
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
  using PassKey = std::tuple<std::int32_t, std::int32_t, std::int32_t>;  ///< stage, microbatch, slice
  static PassKey pass_key(const Action& a) { return {a.subject, a.microbatch, a.slice}; }

  void find_gradients();
  void find_actions();
  void reserve(const Action& action);
  [[nodiscard]] std::optional<ComputeBuffers> find_buffers(InstructionId id, const Action& action) const;
  [[nodiscard]] ComputeBuffers compute_buffers(InstructionId id, const Action& action) const;
  [[nodiscard]] GradientOutput* find(BlockId block, int update);
  void run(InstructionId id, const Action& action, GpuStream stream);
  void compute(InstructionId id, const Action& action, GpuStream stream);
  void clear_gradients(InstructionId id, const Action& action, GpuStream stream);
  void optimize(const Action& action, GpuStream stream);
  [[nodiscard]] Payload payload(InstructionId id, const Action& action) const;
  void move(const Payload& to, const Payload& from, GpuStream stream);
  void unshard(InstructionId id, StageId stage, GpuStream stream);
  void begin_norm(int update, GpuStream stream);
  void reduce(InstructionId id, const Action& action, GpuStream stream, CollectiveCall& call);
  void add_part(InstructionId id, const Action& action, CollectiveCall& call) const;
  [[nodiscard]] std::span<std::byte> memory_of(const GradientOutput& output) const;
  void copy_out(const GradientOutput& output, GpuStream stream);
  void copy_out_loss(const GradientOutput& output, GpuStream stream);
  void keep_newest_parameters(GpuStream stream);
  [[nodiscard]] const std::int64_t* step() const {
    return reinterpret_cast<const std::int64_t*>(step_.data());
  }
  /// Of an action in the list of the rank: how many stand before it.
  [[nodiscard]] std::size_t number_of(const Action& action) const {
    return as_size(&action - program_.actions(program_.first(rank_)).data());
  }
  [[nodiscard]] ActionPlace place(InstructionId id) const { return {rank_, id}; }

  const Program& program_;
  const Pipeline& pipeline_;
  const StageModel& model_;
  const RunOptions& options_;
  const TensorMap& tensors_;
  Device& device_;
  Stages& stages_;
  RankId rank_;
  std::vector<BlockId> blocks_;          ///< that the rank has a share of
  std::vector<GradientOutput> outputs_;  ///< by block, update
  /// Per action of the rank: the tensors of one that computes, where the Program has all that it needs.
  std::vector<std::optional<ComputeBuffers>> buffers_;
  std::map<PassKey, Payload> host_copies_;
  std::vector<std::span<std::byte>> newest_;  ///< per block: room for its newest version
  std::span<std::byte> norms_;                ///< a double for each update
  std::span<std::byte> step_;                 ///< number of the step, which every pass reads
  std::vector<char> norm_known_;              ///< per update, in this pass; bytes, for they are written apart
  bool takes_ = false;
};

/// The sum of the losses of a step over the ranks of a process; in the same order whichever rank has them.
[[nodiscard]] double sum_of_losses(const std::deque<RankActions>& ranks);
/// The gradients of these ranks. Order: block, update, rank.
[[nodiscard]] std::vector<BlockGradients> all_gradients(const std::deque<RankActions>& ranks);

}  // namespace ppsim::gpu_backend
