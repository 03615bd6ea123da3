#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/pipeline.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/ir/tables.hpp"
#include "ppsim/gpu_backend/stage_model/stage_model.hpp"

struct CUstream_st;

namespace ppsim::gpu_backend {

/// CUDA's stream, the same type as CUstream and cudaStream_t.
using GpuStream = CUstream_st*;

/// What the elements of gradients are, for sums over ranks.
enum class ElementType : std::uint8_t { float32, float64, bfloat16, uint64 };

/// Where the stages of a rank run.
struct GpuPlace {
  RankId rank;
  int device = 0;           ///< ordinal of the CUDA device
  int multiprocessors = 0;  ///< that the rank has to itself
};

/// The tensors of one OPT, in device memory.
struct UpdateBuffers {
  std::span<std::byte> parameters;
  std::span<std::byte> gradients;
  std::span<std::byte> optimizer_state;
  const double* squared_norm = nullptr;  ///< of all gradients, in device memory; null: no clipping
  double largest_norm = 1;               ///< gradients are scaled down to it where their norm is larger
};

/// The kernels of one rank's stages. Every call enqueues work on a stream and returns: it allocates nothing,
/// creates nothing, waits for nothing, so that it can be captured in a graph. Buffers are device memory,
/// whose bytes the host must not touch. One thread at a time calls it, with the rank's CUDA context current;
/// calls on different streams may run at the same time on the device. Before anything else every kind of
/// action is run once on zeros, so that no kernel is loaded inside a step. Errors: throws BackendError.
class GpuStages {
 public:
  virtual ~GpuStages() = default;

  /// The parameters of a block before the first step, and cleared optimizer state.
  virtual void initialize(GpuStream stream, BlockId block, std::span<std::byte> parameters,
                          std::span<std::byte> optimizer_state) = 0;
  /// The input batch that a microbatch has in this step, the x of a first stage: of one slice its piece.
  virtual void load(GpuStream stream, MicrobatchId mb, const ActionBuffers& buffers) = 0;
  /// F, B, I, W or R. B is I followed by W on the same bits. Gradients are added to; the executor clears
  /// them.
  virtual void compute(GpuStream stream, const Action& action, const ActionBuffers& buffers) = 0;
  /// OPT.
  virtual void update(GpuStream stream, const UpdateBuffers& buffers) = 0;
  /// into += from, element by element; `from` may be memory of another device that this one has access to.
  virtual void accumulate(GpuStream stream, std::span<std::byte> into, std::span<const std::byte> from) = 0;
  /// *sum += squared norm of the gradients; `sum` is in device memory.
  virtual void add_squared_norm(GpuStream stream, std::span<const std::byte> gradients, double* sum) = 0;
  /// *into += *from, as accumulate().
  virtual void add_norm(GpuStream stream, double* into, const double* from) = 0;
  /// A collective of a microbatch, as StageModel::combine: every member runs it, on copies of all parts, each
  /// as many bytes behind the one before it as the next.
  virtual void combine(GpuStream /*stream*/, CollectiveId /*collective*/,
                       std::span<const CollectivePart> /*parts*/) {}
};

/// A model cut into stages, as kernels: what StageModel is on the CPU. User code implements this to run its
/// own stages; the executor owns all tensors and decides when what runs.
class GpuStageModel {
 public:
  virtual ~GpuStageModel() = default;

  /// Whether this model can run a pipeline. Errors: bad_argument naming what it cannot do.
  [[nodiscard]] virtual Expected<void> check(const Pipeline& pipeline) const = 0;
  /// Whether this model can run the actions of a Program whose pipeline it can run.
  /// Errors: bad_argument naming the first that it cannot.
  [[nodiscard]] virtual Expected<void> check_actions(const Program& /*program*/) const { return {}; }
  /// Bytes of every tensor class, workspaces included, each a multiple of 64.
  [[nodiscard]] virtual SizeTable sizes(const Pipeline& pipeline) const = 0;
  /// As StageModel::statistics_bytes.
  [[nodiscard]] virtual Bytes statistics_bytes(const Pipeline& /*pipeline*/,
                                               CollectiveId /*collective*/) const {
    return 0;
  }
  /// What computes a pipeline that could be computed otherwise, and why, for a reader; decided once. Empty:
  /// there is no choice.
  [[nodiscard]] virtual std::string kernels_text(const Pipeline& /*pipeline*/) const { return {}; }
  /// Gradients are arrays of this type over their whole size.
  [[nodiscard]] virtual ElementType gradient_type() const = 0;
  /// Bytes at the end of the gradients of a block that loss() reads; 0 where no microbatch ends on the block.
  [[nodiscard]] virtual Bytes loss_bytes(const Pipeline& /*pipeline*/, BlockId /*block*/) const { return 0; }
  /// Sum of the losses of the microbatches that have added to those gradients; `bytes` are in host memory.
  [[nodiscard]] virtual double loss(std::span<const std::byte> /*bytes*/) const { return 0; }

  /// Prepares the kernels of a rank, once before its first step, with its CUDA context current: handles,
  /// algorithms, memory beyond the tensors belong here. Requires: a pipeline that outlives the result.
  /// Errors: throws BackendError.
  [[nodiscard]] virtual std::unique_ptr<GpuStages> open(const Pipeline& pipeline,
                                                        const GpuPlace& place) const = 0;
};

/// A model that has kernels and nothing for a CPU. Errors: bad_argument from everything that would run it, or
/// a reference of it, on a CPU.
class GpuOnlyModel final : public StageModel {
 public:
  /// Requires: not null.
  explicit GpuOnlyModel(std::unique_ptr<GpuStageModel> kernels);

  [[nodiscard]] Expected<void> check(const Pipeline& pipeline) const override;
  [[nodiscard]] Expected<void> check_actions(const Program& program) const override;
  [[nodiscard]] SizeTable sizes(const Pipeline& pipeline) const override;
  [[nodiscard]] const GpuStageModel* on_gpu() const override { return kernels_.get(); }

  // None of these is called where check() is asked first.
  void initialize(const Pipeline& pipeline, BlockId block, std::span<std::byte> parameters,
                  std::span<std::byte> optimizer_state) const override;
  void load(const Pipeline& pipeline, MicrobatchId mb, const ActionBuffers& buffers) const override;
  void compute(const Pipeline& pipeline, const Action& action, const ActionBuffers& buffers) const override;
  void update(std::span<std::byte> parameters, std::span<std::byte> gradients,
              std::span<std::byte> optimizer_state, double gradient_scale) const override;
  void accumulate(std::span<std::byte> into, std::span<const std::byte> from) const override;
  [[nodiscard]] double squared_norm(std::span<const std::byte> gradients) const override;
  [[nodiscard]] double max_abs_difference(std::span<const std::byte> a,
                                          std::span<const std::byte> b) const override;

 private:
  std::unique_ptr<GpuStageModel> kernels_;
};

}  // namespace ppsim::gpu_backend

namespace ppsim {
using gpu_backend::ElementType;
using gpu_backend::GpuOnlyModel;
using gpu_backend::GpuPlace;
using gpu_backend::GpuStageModel;
using gpu_backend::GpuStages;
using gpu_backend::GpuStream;
using gpu_backend::UpdateBuffers;
}  // namespace ppsim
