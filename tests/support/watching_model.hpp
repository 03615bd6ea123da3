#pragma once

#include <unistd.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <utility>

#include "ppsim/gpu_backend/stage_model/stage_model.hpp"

namespace ppsim::test {

/// Bytes of this process that are in memory.
inline std::int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t total = 0;
  std::int64_t resident = 0;
  statm >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

/// Notes how much memory the process holds in the course of a run.
class WatchingModel final : public CpuStageModel {
 public:
  WatchingModel(std::unique_ptr<CpuStageModel> model, int early, int late)
      : model_(std::move(model)), early_(early), late_(late) {}

  [[nodiscard]] std::int64_t growth() const { return late_bytes_ - early_bytes_; }

  Expected<void> check(const Pipeline& pipeline) const override { return model_->check(pipeline); }
  SizeTable sizes(const Pipeline& pipeline) const override { return model_->sizes(pipeline); }
  void initialize(const Pipeline& pipeline, BlockId block, std::span<std::byte> parameters,
                  std::span<std::byte> optimizer_state) const override {
    model_->initialize(pipeline, block, parameters, optimizer_state);
  }
  void load(const Pipeline& pipeline, MicrobatchId mb, const ActionBuffers& buffers) const override {
    if (mb == MicrobatchId(0)) {
      const int step = ++steps_;
      if (step == early_) early_bytes_ = resident_bytes();
      if (step == late_) late_bytes_ = resident_bytes();
    }
    model_->load(pipeline, mb, buffers);
  }
  void compute(const Pipeline& pipeline, const Action& action, const ActionBuffers& buffers) const override {
    model_->compute(pipeline, action, buffers);
  }
  void update(std::span<std::byte> parameters, std::span<std::byte> gradients,
              std::span<std::byte> optimizer_state, double gradient_scale) const override {
    model_->update(parameters, gradients, optimizer_state, gradient_scale);
  }
  void accumulate(std::span<std::byte> into, std::span<const std::byte> from) const override {
    model_->accumulate(into, from);
  }
  double squared_norm(std::span<const std::byte> gradients) const override {
    return model_->squared_norm(gradients);
  }
  Bytes loss_bytes(const Pipeline& pipeline, BlockId block) const override {
    return model_->loss_bytes(pipeline, block);
  }
  double loss(std::span<const std::byte> bytes) const override { return model_->loss(bytes); }
  double max_abs_difference(std::span<const std::byte> a, std::span<const std::byte> b) const override {
    return model_->max_abs_difference(a, b);
  }

 private:
  std::unique_ptr<CpuStageModel> model_;
  int early_;
  int late_;
  mutable std::atomic<int> steps_ = 0;
  mutable std::atomic<std::int64_t> early_bytes_ = 0;
  mutable std::atomic<std::int64_t> late_bytes_ = 0;
};

}  // namespace ppsim::test
