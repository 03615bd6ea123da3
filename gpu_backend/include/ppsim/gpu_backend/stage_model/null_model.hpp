#pragma once

#include <optional>
#include <utility>

#include "ppsim/gpu_backend/stage_model/stage_model.hpp"

namespace ppsim::gpu_backend {

/// A model without arithmetic that runs every pipeline: for what depends on order and memory alone. No action
/// reads or writes a tensor.
class NullModel final : public CpuStageModel {
 public:
  /// Every tensor takes 64 bytes per tensor that it is made of.
  NullModel() = default;
  explicit NullModel(SizeTable sizes) : sizes_(std::move(sizes)) {}

  [[nodiscard]] Expected<void> check(const Pipeline& pipeline) const override;
  [[nodiscard]] SizeTable sizes(const Pipeline& pipeline) const override;
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
  std::optional<SizeTable> sizes_;
};

}  // namespace ppsim::gpu_backend

namespace ppsim {
using gpu_backend::NullModel;
}  // namespace ppsim
