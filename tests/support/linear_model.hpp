#pragma once

#include <string>

#include "ppsim/gpu_backend/executor/execute.hpp"

namespace ppsim::test {

/// A model of eight integers a tensor, modulo 2^64, that touches every buffer it is given: a tensor that is
/// missing, stale, swapped or overwritten changes the gradients, whatever else stands in its place. Runs
/// chains without slices.
class LinearModel final : public CpuStageModel {
 public:
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
};

/// Runs without a certificate, overwriting what is freed, by rendezvous or with credits.
RunOptions unverified(std::optional<int> credits = std::nullopt);

/// Executes or throws with the error's text.
RunResult run(const Program& program, const CpuStageModel& model, const RunOptions& options);

/// "equal", or how the gradients of a finished run of a LinearModel differ from the unpipelined reference.
std::string against_reference(const Program& program, const RunOptions& options);

/// "exact", or what is wrong with the memory figures of a run: its high-water mark must be the largest peak
/// replayed from its traces, and within the pool.
std::string memory_figures(const Program& program, const CpuStageModel& model, const RunResult& result);

/// The lines of a hang report.
std::vector<std::string> hang_lines(const RunResult& result);

}  // namespace ppsim::test
