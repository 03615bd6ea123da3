#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/pipeline.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/ir/tables.hpp"

namespace ppsim::gpu_backend {

class CpuStageModel;
class GpuStageModel;

/// The tensors that one action reads and writes, in the pool of its rank; empty where the action has none.
/// On one rank a stage's x is its producer's y, and the dx of its consumer is its own dy. LOAD has x alone.
struct ActionBuffers {
  std::span<std::byte> parameters;
  std::span<std::byte> gradients;
  std::span<std::byte> optimizer_state;
  std::span<std::byte> x;  ///< boundary input; of the first stage: the microbatch itself
  std::span<std::byte> y;  ///< boundary output
  std::span<std::byte> saved_for_input;
  std::span<std::byte> saved_for_weight;
  std::span<std::byte> dy;  ///< gradient of y
  std::span<std::byte> dx;  ///< gradient of x: the outgoing one, or the producer's dy
  std::span<std::byte> inner_gradients;
  std::span<std::byte> workspace;
  /// Number of the step, from 0, in memory of the same device: a graph is made once for all steps. Null: 0.
  const std::int64_t* step = nullptr;
  std::int32_t slice = 0;  ///< of the microbatch
  /// Of the slices before, F, B and I read these: their saved activations for I, in the order of the
  /// sequence.
  std::vector<std::span<std::byte>> earlier;
  /// Gradient of the keys and values of a microbatch on a stage, from B or I of its last slice to that of its
  /// first.
  std::span<std::byte> kv_gradient;
  /// Of the second block of a stage, which it shares with others.
  std::span<std::byte> shared_parameters;
  std::span<std::byte> shared_gradients;
  /// Outputs of the producers after the first, whose output is x.
  std::vector<std::span<std::byte>> further_x;
  /// Gradients of y from the consumers after the first, whose gradient is dy.
  std::vector<std::span<std::byte>> further_dy;
  /// Gradients of the outputs in further_x.
  std::vector<std::span<std::byte>> further_dx;
  /// Outputs of F for the ends of its side edges, and inputs of the actions at such an end, ascending.
  std::vector<std::span<std::byte>> side_outputs;
  std::vector<std::span<std::byte>> side_inputs;
};

/// The contribution of one rank to a collective of a microbatch.
struct CollectivePart {
  std::span<std::byte> statistics;  ///< as many bytes as StageModel::statistics_bytes says
  std::span<std::byte> summand;     ///< dx or y of its stage, where the collective sums these
};

/// A model cut into stages, as one kind of device computes it: what it can run, and how large its tensors are
/// there. Every method is thread-safe by being const.
class StageModel {
 public:
  virtual ~StageModel() = default;

  /// Refuses a pipeline with stages, routes, slices or shared blocks that this model cannot run.
  /// Errors: bad_argument naming them.
  [[nodiscard]] virtual Expected<void> check(const Pipeline& pipeline) const = 0;
  /// Refuses a Program of such a pipeline with actions that this model cannot run.
  /// Errors: bad_argument naming the first that it cannot.
  [[nodiscard]] virtual Expected<void> check_actions(const Program& /*program*/) const { return {}; }
  /// Bytes of every tensor class, workspaces included, each a multiple of 64.
  [[nodiscard]] virtual SizeTable sizes(const Pipeline& pipeline) const = 0;
  /// Bytes in front of what F of a stage saves for W which a collective behind this F makes the same for all
  /// of its stages, such as the statistics of a softmax. They stay where they are from F to B.
  [[nodiscard]] virtual Bytes statistics_bytes(const Pipeline& /*pipeline*/,
                                               CollectiveId /*collective*/) const {
    return 0;
  }
  /// Bytes at the end of the gradients of a block that loss() reads; 0 where no microbatch ends on the block.
  [[nodiscard]] virtual Bytes loss_bytes(const Pipeline& /*pipeline*/, BlockId /*block*/) const { return 0; }
  /// Sum of the losses of the microbatches that have added to those gradients; `bytes` are in host memory.
  [[nodiscard]] virtual double loss(std::span<const std::byte> /*bytes*/) const { return 0; }

  /// Everything that decides the numbers of this model beside the sizes of its tensors, such as seed,
  /// arithmetic and optimizer: models of equal text compute the same. The processes of a run compare it.
  [[nodiscard]] virtual std::string identity() const { return {}; }
  /// Largest relative error of one operation on numbers of its gradients; 0: they are exact.
  [[nodiscard]] virtual double unit_roundoff() const { return 0; }

  /// The same model as arithmetic for a CPU; null where it has none.
  [[nodiscard]] virtual const CpuStageModel* on_cpu() const { return nullptr; }
  /// The same model as kernels for a GPU; null where it has none.
  [[nodiscard]] virtual const GpuStageModel* on_gpu() const { return nullptr; }
};

/// The arithmetic of a model on a CPU; the executor owns all memory and decides when what runs. Actions of
/// different ranks run concurrently. User code implements this to run its own stages on a CPU.
class CpuStageModel : public StageModel {
 public:
  [[nodiscard]] const CpuStageModel* on_cpu() const final { return this; }

  /// Writes the parameters of a block as they are before the first step, and clears its optimizer state.
  virtual void initialize(const Pipeline& pipeline, BlockId block, std::span<std::byte> parameters,
                          std::span<std::byte> optimizer_state) const = 0;
  /// Writes the input batch that a microbatch has in this step, the x of a first stage: of one slice its
  /// piece. Every action on the microbatch in the step belongs to the same batch.
  virtual void load(const Pipeline& pipeline, MicrobatchId mb, const ActionBuffers& buffers) const = 0;
  /// Runs F, B, I, W or R. F has a dx where a collective after it sums the gradient of its x. B is I
  /// followed by W on the same bits. Gradients are accumulated: the executor clears them when they are
  /// allocated.
  virtual void compute(const Pipeline& pipeline, const Action& action,
                       const ActionBuffers& buffers) const = 0;
  /// Runs a collective of a microbatch: leaves the common statistics in every part, and in front of the first
  /// summand what the summands make together. Order: parts by ascending rank. A model that checks for
  /// pipelines without such collectives needs none.
  virtual void combine(const Pipeline& /*pipeline*/, CollectiveId /*collective*/,
                       std::span<const CollectivePart> /*parts*/) const {}
  /// Runs OPT: one update of the parameters of a block from its summed gradients, scaled by `gradient_scale`.
  virtual void update(std::span<std::byte> parameters, std::span<std::byte> gradients,
                      std::span<std::byte> optimizer_state, double gradient_scale) const = 0;
  /// into += from, element by element: the sum of REDUCE_GRAD over the ranks of a shared block.
  virtual void accumulate(std::span<std::byte> into, std::span<const std::byte> from) const = 0;
  /// Squared norm of gradients, for clipping; 0 in integer-exact arithmetic.
  [[nodiscard]] virtual double squared_norm(std::span<const std::byte> gradients) const = 0;
  /// Largest absolute difference of two gradient buffers; 0 only if they are equal bit by bit.
  [[nodiscard]] virtual double max_abs_difference(std::span<const std::byte> a,
                                                  std::span<const std::byte> b) const = 0;
};

/// The arithmetic of a model that must run on a CPU. Errors: bad_argument where it has kernels only.
[[nodiscard]] Expected<const CpuStageModel*> arithmetic_of(const StageModel& model);

}  // namespace ppsim::gpu_backend

namespace ppsim {
using gpu_backend::ActionBuffers;
using gpu_backend::CollectivePart;
using gpu_backend::CpuStageModel;
using gpu_backend::StageModel;
}  // namespace ppsim
