#pragma once

#include <initializer_list>
#include <memory>
#include <string>

#include "attention_graphs.hpp"
#include "device/cuda/cuda_table.hpp"
#include "ppsim/gpu_backend/stage_model/gpu_stage_model.hpp"

namespace ppsim::gpu_backend::cuda {

/// The tensors of attention forward, and those that backward adds. Queries, keys and values are the three
/// parts of each row of `joint`, their gradients those of `d_joint`.
struct AttentionMemory {
  const void* joint = nullptr;
  void* attended = nullptr;
  void* statistics = nullptr;
  const void* d_attended = nullptr;
  void* d_joint = nullptr;
  void* sums = nullptr;
  void* workspace = nullptr;
};

/// The numbers of two plans among those that cuDNN has.
struct AttentionPlans {
  int forward = 0, backward = 0;
};

/// Bytes of workspace that the plans of attention need.
struct AttentionWorkspace {
  std::size_t forward = 0, backward = 0;
};

/// Attention of all sequences of a microbatch by cuDNN: bf16, with sums in float32, the same bits every time.
/// Order: calls of one rank come from one thread. Errors: throws BackendError.
class FlashAttention {
 public:
  /// Plans for the device of the current context. Requires: is_suitable cuDNN and sizes.
  /// Errors: bad_argument where the plans need more than `workspace`, or there are none.
  FlashAttention(const CudnnTable& cudnn, const AttentionSizes& d, const AttentionWorkspace& workspace,
                 const AttentionPlans& plans = {});

  /// The workspace of its plans.
  [[nodiscard]] AttentionWorkspace workspace() const {
    return {forward_.workspace_bytes(), backward_.workspace_bytes()};
  }
  void forward(GpuStream stream, const AttentionMemory& memory) const;
  void backward(GpuStream stream, const AttentionMemory& memory) const;

 private:
  using Handle = std::unique_ptr<cudnnContext, std::function<void(cudnnContext*)>>;

  [[nodiscard]] Handle open() const;
  void execute(GpuStream stream, const CudnnPlan& plan, std::initializer_list<CudnnArgument> arguments,
               void* workspace) const;

  CudnnObjects objects_;
  std::int64_t hidden_;
  float scale_;
  Handle handle_;
  CudnnPlan forward_, backward_;
};

/// The workspace of the plans for a device that a device object describes: device 0, or one that cuDNN's
/// JSON describes and that need not be present.
/// Errors: throws BackendError; bad_argument where cuDNN has no such plan.
[[nodiscard]] AttentionWorkspace attention_workspace(const CudnnTable& cudnn, const AttentionSizes& d,
                                                     const std::string& device_json = "",
                                                     const AttentionPlans& plans = {});

}  // namespace ppsim::gpu_backend::cuda
