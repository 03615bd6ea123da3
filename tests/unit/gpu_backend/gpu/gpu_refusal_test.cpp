// Refusals of the CUDA backend before there is a device.

#include <gtest/gtest.h>

#include "executor/gpu/gpu_admission.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/gpu_backend/stage_model/null_model.hpp"
#include "ppsim/schedules/registry.hpp"
#include "support/fake_gpu/run.hpp"

namespace ppsim::test {

using namespace gpu_backend;
namespace {

Program two_ranks() { return lower(generate("1f1b", {.ranks = 2, .microbatches = 4}).value(), {}).value(); }

TEST(GpuRefusal, WhatTheBackendCannotBeIsRefused) {
  const Program program = two_ranks();
  const auto refusal = [&](const RunOptions& run) { return check_gpu_options(program, run).error().message; };
  RunOptions options;
  options.backend = CudaOptions{};
  EXPECT_TRUE(check_gpu_options(program, options));
  options.capabilities.credits = 2;
  EXPECT_EQ(refusal(options), "a GPU transport promises no buffers: a program needs rendezvous");
  options.capabilities = rendezvous();
  options.poison = true;
  EXPECT_EQ(refusal(options), "the CUDA backend does not overwrite freed tensors");
}

TEST(GpuRefusal, WithoutADriverTheMessageSaysWhichLibrary) {
  class KernelModel final : public GpuStageModel {
   public:
    Expected<void> check(const Pipeline&) const override { return {}; }
    SizeTable sizes(const Pipeline& pipeline) const override { return NullModel().sizes(pipeline); }
    ElementType gradient_type() const override { return ElementType::float32; }
    std::unique_ptr<GpuStages> open(const Pipeline&, const GpuPlace&) const override { return nullptr; }
  };
  RunOptions options;
  options.unverified = true;
  options.backend = CudaOptions{.cuda_library = "/nowhere/libcuda.so"};
  const Program program = two_ranks();
  const KernelModel model;
  const auto result = execute(program, model, options);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message.rfind("the CUDA backend needs /nowhere/libcuda.so: ", 0), 0U)
      << result.error().message;
  EXPECT_NE(result.error().message.find("PPSIM_CUDA_LIBRARY"), std::string::npos);
}

TEST(GpuRefusal, AModelWithoutKernelsIsRefused) {
  RunOptions options;
  options.backend = CudaOptions{};
  EXPECT_EQ(execute(two_ranks(), NullModel(), options).error().message,
            "this model has no kernels for a GPU");
}

TEST(GpuRefusal, AnNcclThatDoesNotKeepTheOrderOfLaunchesIsTooOld) {
  const Program program = two_ranks();
  FakeGpu gpu(devices_for(program));
  const auto with_version = [](int number) {
    return [number](GpuApi& api) {
      api.nccl.version = [number](int* version) {
        *version = number;
        return kNcclSuccess;
      };
    };
  };
  const auto result = run_on_fake(gpu, program, NullModel(), {.tamper = with_version(22505)});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message,
            "NCCL 2.25.5 is too old: several communicators on a device need 2.26 or later");
  FakeGpu other(devices_for(program));
  EXPECT_TRUE(run_on_fake(other, program, NullModel(), {.tamper = with_version(22602)}));
}

}  // namespace
}  // namespace ppsim::test
