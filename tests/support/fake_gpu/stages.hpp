#pragma once

#include <functional>
#include <memory>

#include "ppsim/gpu_backend/stage_model/gpu_stage_model.hpp"
#include "support/fake_gpu/fake_gpu.hpp"

namespace ppsim::test {

/// A model of the CPU whose actions are kernels of the fake, so that what a GPU would compute is comparable.
class FakeStageModel final : public GpuStageModel {
 public:
  using Duration = std::function<Nanoseconds(const Action&)>;

  /// Requires: both outlive it. `exact`: sums of gradients are of integers modulo 2^64.
  FakeStageModel(FakeGpu& gpu, const CpuStageModel& model, bool exact, Duration duration);

  [[nodiscard]] Expected<void> check(const Pipeline& pipeline) const override {
    return model_.check(pipeline);
  }
  [[nodiscard]] Expected<void> check_actions(const Program& program) const override {
    return model_.check_actions(program);
  }
  [[nodiscard]] SizeTable sizes(const Pipeline& pipeline) const override { return model_.sizes(pipeline); }
  [[nodiscard]] Bytes statistics_bytes(const Pipeline& pipeline, CollectiveId collective) const override {
    return model_.statistics_bytes(pipeline, collective);
  }
  [[nodiscard]] ElementType gradient_type() const override {
    return exact_ ? ElementType::uint64 : ElementType::float32;
  }
  [[nodiscard]] std::unique_ptr<GpuStages> open(const Pipeline& pipeline,
                                                const GpuPlace& place) const override;

 private:
  FakeGpu& gpu_;
  const CpuStageModel& model_;
  bool exact_ = true;
  Duration duration_;
};

}  // namespace ppsim::test
