#include "ppsim/planner/verified_run.hpp"

#include <gtest/gtest.h>

#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/gpu_backend/stage_model/gpu_stage_model.hpp"
#include "ppsim/gpu_backend/stage_model/null_model.hpp"
#include "ppsim/schedules/registry.hpp"

namespace ppsim {
namespace {

/// Kernels that no test launches.
class Kernels final : public GpuStageModel {
 public:
  [[nodiscard]] Expected<void> check(const Pipeline& pipeline) const override {
    if (pipeline.stages() < 4) return {};
    return make_error(ErrorCode::bad_argument, "kernels for three stages at most");
  }
  [[nodiscard]] SizeTable sizes(const Pipeline& pipeline) const override {
    return NullModel().sizes(pipeline);
  }
  [[nodiscard]] ElementType gradient_type() const override { return ElementType::bfloat16; }
  [[nodiscard]] std::unique_ptr<GpuStages> open(const Pipeline&, const GpuPlace&) const override {
    return nullptr;
  }
};

Program program_on(int ranks) {
  return lower(generate("1f1b", {.ranks = ranks, .microbatches = 4}).value(), {}).value();
}

std::string refusal(int ranks, const VerifiedRunOptions& options) {
  const auto result = verify_then_run(program_on(ranks), Kernels(), options);
  return result ? "ran" : to_string(result.error());
}

/// The bf16 transformer is one too: what refuses it on a CPU must not refuse it on a GPU.
TEST(VerifiedRun, KernelsNeedNoCpuThatCouldRunThem) {
  VerifiedRunOptions options;
  options.run.backend = CudaOptions{.cuda_library = "/nowhere/libcuda.so"};
  EXPECT_NE(refusal(2, options).find("the CUDA backend needs /nowhere/libcuda.so"), std::string::npos)
      << refusal(2, options);
  EXPECT_NE(refusal(4, options).find("kernels for three stages at most"), std::string::npos);
}

TEST(VerifiedRun, OnACpuKernelsAreRefused) {
  EXPECT_NE(refusal(2, {}).find("kernels and nothing for a CPU"), std::string::npos);
  VerifiedRunOptions compared;
  compared.run.backend = CudaOptions{.cuda_library = "/nowhere/libcuda.so"};
  compared.compare = true;
  EXPECT_NE(refusal(2, compared).find("kernels and nothing for a CPU"), std::string::npos)
      << "there is no reference, and that is said before the run";
}

}  // namespace
}  // namespace ppsim
