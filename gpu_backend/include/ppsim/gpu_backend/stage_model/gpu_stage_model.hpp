#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/pipeline.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/gpu_backend/stage_model/algorithms.hpp"
#include "ppsim/gpu_backend/stage_model/stages.hpp"

namespace ppsim::gpu_backend {

/// The type of a gradient's elements, for sums over ranks.
enum class ElementType : std::uint8_t { float32, float64, bfloat16, uint64 };

/// The part of a device that the stages of a rank run on.
struct GpuPlace {
  RankId rank;
  int device = 0;           ///< ordinal of the CUDA device
  int multiprocessors = 0;  ///< that the rank has to itself
};

/// The kernels of one rank's stages. Every call enqueues work on a stream and returns: it allocates nothing,
/// creates nothing, waits for nothing, so that it can be captured in a graph. Buffers are device memory,
/// whose bytes the host must not touch. One thread at a time calls it, with the rank's CUDA context current;
/// calls on different streams may run at the same time on the device. Before anything else every kind of
/// action is run once on zeros, so that no kernel is loaded inside a step. Errors: throws BackendError.
class GpuStages : public Stages {
 public:
  /// into += from, element by element; `from` may be memory of another device that this one has access to.
  virtual void accumulate(GpuStream stream, std::span<std::byte> into, std::span<const std::byte> from) = 0;
  /// *into += *from, as accumulate().
  virtual void add_norm(GpuStream stream, double* into, const double* from) = 0;
  /// A collective of a microbatch, as CpuStageModel::combine: every member runs it, on copies of all parts,
  /// each as many bytes behind the one before it as the next.
  virtual void combine(GpuStream /*stream*/, CollectiveId /*collective*/,
                       std::span<const CollectivePart> /*parts*/) {}

  /// Before the warm-up, of the first rank alone: times the algorithms of each product that `known` lacks,
  /// and adds the fastest. May allocate, and waits for the device.
  /// Errors: throws BackendError also where `known` is of another device or library.
  virtual void time_algorithms(const WorkTimer& /*time_of*/, Algorithms& /*known*/) {}
  /// Computes every product by its algorithm in `known` from here on, and not by the one of its own choice.
  /// Errors: throws BackendError for a product that `known` lacks, and for an algorithm that the library does
  /// not suggest for it.
  virtual void take_algorithms(const Algorithms& /*known*/) {}
};

/// A model as kernels for a GPU: what CpuStageModel is on a CPU. User code implements this to run its own
/// stages; the executor owns all tensors and decides when what runs. A model that has both hands this one out
/// by on_gpu().
class GpuStageModel : public StageModel {
 public:
  [[nodiscard]] const GpuStageModel* on_gpu() const final { return this; }

  /// The kernels that compute a pipeline where there is a choice, and the reason, for a reader; decided once.
  /// Empty: there is no choice.
  [[nodiscard]] virtual std::string kernels_text(const Pipeline& /*pipeline*/) const { return {}; }
  /// Gradients are arrays of this type over their whole size.
  [[nodiscard]] virtual ElementType gradient_type() const = 0;

  /// Prepares the kernels of a rank, once before its first step, with its CUDA context current: handles,
  /// algorithms, memory beyond the tensors belong here. Requires: a pipeline that outlives the result.
  /// Errors: throws BackendError.
  [[nodiscard]] virtual std::unique_ptr<GpuStages> open(const Pipeline& pipeline,
                                                        const GpuPlace& place) const = 0;
};

}  // namespace ppsim::gpu_backend

namespace ppsim {
using gpu_backend::ElementType;
using gpu_backend::GpuPlace;
using gpu_backend::GpuStageModel;
using gpu_backend::GpuStages;
}  // namespace ppsim
