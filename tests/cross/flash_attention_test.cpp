// Attention by cuDNN under the executor of streams, on the strict fake.

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/schedules/registry.hpp"
#include "support/fake_gpu/run.hpp"
#include "support/fake_gpu/transformer.hpp"

namespace ppsim::flash_attention_test {

using namespace gpu_backend;
namespace {

using test::FakeGpu;
using test::TransformerFaults;

TransformerConfig config_of(AttentionKernels attention) {
  return {.layers = 4,
          .hidden = 16,
          .heads = 2,
          .ffn = 12,
          .vocab = 11,
          .sequence = 4,
          .arithmetic = Arithmetic::bf16,
          .attention = attention};
}

Program program_of(const std::string& schedule, Recompute recompute = Recompute::none) {
  LoweringOptions options;
  options.load = options.reduce_grad = options.optimizer = options.clip = true;
  options.recompute = recompute;
  return lower(generate(schedule, {.ranks = 2, .microbatches = 3}).value(), options).value();
}

/// The result of a run without faults.
RunResult run_of(const Program& program, const CudaOptions& options, AttentionKernels attention,
                 TransformerFaults faults = {.cudnn_options = test::HostCudnnOptions()}) {
  FakeGpu gpu(test::devices_for(program));
  const auto make = [&](const GpuApi& api) {
    return test::fake_transformer(gpu, api, config_of(attention), faults);
  };
  auto result = test::run_kernels_on_fake(gpu, program, make, {.cuda = options, .steps = 3});
  std::ostringstream held;
  for (const test::Fault& fault : gpu.faults()) held << fault << '\n';
  EXPECT_EQ(held.str(), "");
  EXPECT_TRUE(result) << to_string(result.error());
  EXPECT_EQ(faults.cudnn_books->live, 0);
  EXPECT_EQ(faults.cudnn_books->double_free, 0);
  return std::move(result).value();
}

const CudaOptions kStreamed = {.host_threads = false};
const CudaOptions kGraphs = {.graphs = true, .host_threads = false};

TEST(FlashAttentionOnFake, HasTheSameBitsInEveryScheduleAndMode) {
  const RunResult streamed = run_of(program_of("1f1b"), kStreamed, AttentionKernels::cudnn);
  const RunResult products = run_of(program_of("1f1b"), kStreamed, AttentionKernels::gemm);
  EXPECT_NE(streamed.gradients, products.gradients) << "they round at other places";
  for (const char* schedule : {"1f1b", "gpipe", "zb-h1"}) {
    for (const CudaOptions& options : {kStreamed, kGraphs}) {
      const RunResult run = run_of(program_of(schedule), options, AttentionKernels::cudnn);
      EXPECT_EQ(run.losses, streamed.losses) << schedule;
      EXPECT_EQ(run.gradients, streamed.gradients) << schedule;
    }
  }
  const RunResult again = run_of(program_of("1f1b", Recompute::full), kStreamed, AttentionKernels::cudnn);
  EXPECT_EQ(again.gradients, streamed.gradients);
}

/// In a step nothing is made but the list of arguments of a call.
TEST(FlashAttentionOnFake, MakesNothingInsideAStep) {
  int steps = 0;
  int made_inside = 0;
  int arguments = 0;
  const Program program = program_of("1f1b");
  FakeGpu gpu(test::devices_for(program));
  const auto inside = std::make_shared<bool>(false);
  TransformerFaults faults{.cudnn_options = test::HostCudnnOptions()};
  faults.cudnn = [&](CudnnTable& table) {
    table.object_create = [&, create = table.object_create](int kind, void** object) {
      if (*inside) ++(kind == cudnn_object::kArguments ? arguments : made_inside);
      return create(kind, object);
    };
    table.create = [&, create = table.create](cudnnContext** handle) {
      if (*inside) ++made_inside;
      return create(handle);
    };
  };
  const auto tamper = [&](GpuApi& api) {
    api.marks.push = [&, push = api.marks.push](const char* name) {
      if (std::string(name) == "PP:step") *inside = true, ++steps;
      push(name);
    };
  };
  const auto make = [&](const GpuApi& api) {
    return test::fake_transformer(gpu, api, config_of(AttentionKernels::cudnn), faults);
  };
  const auto result =
      test::run_kernels_on_fake(gpu, program, make, {.cuda = kStreamed, .steps = 2, .tamper = tamper});
  ASSERT_TRUE(result) << to_string(result.error());
  EXPECT_GE(steps, 2);
  EXPECT_EQ(made_inside, 0);
  // 4 layers forward and backward for each of 3 microbatches and 2 steps.
  EXPECT_EQ(arguments, 4 * 2 * 3 * 2);
}

/// Without cuDNN the same program runs by products.
TEST(FlashAttentionOnFake, DoesWithoutWhereThereIsNone) {
  const RunResult products = run_of(program_of("1f1b"), kStreamed, AttentionKernels::gemm);
  const RunResult without = run_of(program_of("1f1b"), kStreamed, AttentionKernels::automatic, {});
  EXPECT_EQ(without.gradients, products.gradients);
}

/// Plans that run on another stream than their action.
TEST(FlashAttentionOnFake, AStreamThatIsNotSetIsARace) {
  const Program program = program_of("zb-h1");
  FakeGpu gpu(test::devices_for(program));
  const auto stray = std::make_shared<CUstream_st*>(nullptr);
  TransformerFaults faults{.cudnn_options = test::HostCudnnOptions()};
  faults.cudnn = [&](CudnnTable& table) {
    table.set_stream = [stray, set = table.set_stream](cudnnContext* handle, CUstream_st*) {
      return set(handle, *stray);
    };
  };
  const auto tamper = [&](GpuApi& api) { api.cuda.stream_create(stray.get(), kCudaStreamNonBlocking, 0); };
  const auto make = [&](const GpuApi& api) {
    return test::fake_transformer(gpu, api, config_of(AttentionKernels::cudnn), faults);
  };
  static_cast<void>(test::run_kernels_on_fake(gpu, program, make, {.cuda = kStreamed, .tamper = tamper}));
  EXPECT_TRUE(gpu.found(test::FaultKind::race));
}

}  // namespace
}  // namespace ppsim::flash_attention_test
