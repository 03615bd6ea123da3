// How often the executor of streams, with the transformer's own code under it, asks the heap for memory
// inside a step: never.

#include <gtest/gtest.h>

#include "heap/step_requests.hpp"
#include "heap/uncounted_libraries.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/schedules/registry.hpp"
#include "support/fake_gpu/run.hpp"
#include "support/fake_gpu/transformer.hpp"
#include "support/small_transformer.hpp"

namespace ppsim::test {
namespace {

constexpr int kSteps = 5;

TEST(HeapRequests, AreThoseOfThisThreadAndOthersButWhatIsNotCounted) {
  const std::uint64_t before = heap_requests();
  const auto one = std::make_unique<std::vector<int>>(3);  // and its elements
  EXPECT_EQ(heap_requests() - before, 2U);
  std::thread([] {
    const NotCounted library;
    const std::vector<int> other(3);
  }).join();
  EXPECT_EQ(heap_requests() - before, 3U);  // the thread's function
}

struct Mode {
  std::string name;
  CudaOptions options;
  Arithmetic arithmetic = Arithmetic::integer_exact;
  std::string schedule = "zb-h1";
  ScheduleParameters parameters = {.ranks = 2, .microbatches = 4};
};
std::ostream& operator<<(std::ostream& out, const Mode& mode) { return out << mode.name; }

Program program_of(const Mode& mode) {
  LoweringOptions options;
  options.load = options.reduce_grad = options.optimizer = options.clip = true;
  return lower(generate(mode.schedule, mode.parameters).value(), options).value();
}

TransformerConfig config_of(const Mode& mode) {
  TransformerConfig config = small_transformer(8, mode.arithmetic);
  if (mode.arithmetic == Arithmetic::bf16 || mode.arithmetic == Arithmetic::fp8) {
    config.hidden = 32;
    config.sequence = 16;
    config.ffn = 32;
    config.vocab = 32;
  }
  return config;
}

std::vector<StepRequests> requests_of(const Mode& mode) {
  const Program program = program_of(mode);
  FakeGpu gpu(devices_for(program));
  StepWatch watch(kSteps);
  const TransformerFaults libraries{.kernels = [](cuda::KernelTable& table) { leave_out(table); },
                                    .cublaslt = [](CublasLtTable& table) { leave_out(table); },
                                    .cudnn = [](CudnnTable& table) { leave_out(table); },
                                    .cudnn_options = mode.arithmetic == Arithmetic::bf16
                                                         ? std::optional(HostCudnnOptions())
                                                         : std::nullopt};
  const auto make = [&](const GpuApi& api) { return fake_transformer(gpu, api, config_of(mode), libraries); };
  const FakeRunOptions options{
      .cuda = mode.options, .steps = kSteps, .kept_traces = 2, .tamper = [&](GpuApi& api) {
        watch.watch(api);
      }};
  const auto result = run_kernels_on_fake(gpu, program, make, options);
  EXPECT_TRUE(gpu.faults().empty());
  EXPECT_TRUE(result) << to_string(result.error());
  return watch.steps();
}

class HeapInAStep : public testing::TestWithParam<Mode> {};

TEST_P(HeapInAStep, IsNeverAsked) {
  const std::vector<StepRequests> steps = requests_of(GetParam());
  ASSERT_EQ(steps.size(), static_cast<std::size_t>(kSteps - 1));
  for (const StepRequests& step : steps) {
    EXPECT_EQ(step.inside, 0U);
    EXPECT_LT(step.whole, 100U);  // traces and losses, once it is over
  }
}

constexpr bool kOneThread = false;
INSTANTIATE_TEST_SUITE_P(
    Modes, HeapInAStep,
    testing::Values(Mode{"streamed", {.host_threads = kOneThread}}, Mode{"a_thread_for_each_rank", {}},
                    Mode{"without_profile", {.profile = false, .host_threads = kOneThread}},
                    Mode{"graphs", {.graphs = true, .host_threads = kOneThread}},
                    Mode{"copy_engines", {.transport = CudaTransport::copy, .host_threads = kOneThread}},
                    Mode{"copy_engines_in_graphs",
                         {.transport = CudaTransport::copy, .graphs = true, .host_threads = kOneThread}},
                    Mode{"sums_over_ranks",
                         {.host_threads = kOneThread},
                         Arithmetic::integer_exact,
                         "chimera",
                         {.ranks = 4, .microbatches = 8}},
                    Mode{"sums_by_copy_engines",
                         {.transport = CudaTransport::copy, .host_threads = kOneThread},
                         Arithmetic::integer_exact,
                         "chimera",
                         {.ranks = 4, .microbatches = 8}},
                    Mode{"products_of_cublaslt", {.host_threads = kOneThread}, Arithmetic::float32},
                    Mode{"attention_of_cudnn", {.host_threads = kOneThread}, Arithmetic::bf16},
                    Mode{"fp8", {.host_threads = kOneThread}, Arithmetic::fp8},
                    Mode{"slices",
                         {.host_threads = kOneThread},
                         Arithmetic::bf16,
                         "seq-1f1b",
                         {.ranks = 2, .microbatches = 4, .slices = 4}},
                    Mode{"slices_by_copy_engines_in_graphs",
                         {.transport = CudaTransport::copy, .graphs = true, .host_threads = kOneThread},
                         Arithmetic::integer_exact,
                         "terapipe",
                         {.ranks = 2, .microbatches = 4, .slices = 3}}),
    [](const auto& one) { return one.param.name; });

ScheduleParameters sharded() {
  ScheduleParameters parameters{.ranks = 3, .microbatches = 4};
  parameters.settings = {{"input", "sharded"}};
  return parameters;
}
INSTANTIATE_TEST_SUITE_P(
    Vocabulary, HeapInAStep,
    testing::Values(Mode{"vocab_1", {.host_threads = kOneThread}, Arithmetic::bf16, "vocab-1", sharded()},
                    Mode{"vocab_2",
                         {.profile = false, .host_threads = kOneThread},
                         Arithmetic::float32,
                         "vocab-2",
                         sharded()},
                    Mode{"vocab_2_by_copy_engines_in_graphs",
                         {.transport = CudaTransport::copy, .graphs = true, .host_threads = kOneThread},
                         Arithmetic::integer_exact,
                         "vocab-2",
                         sharded()},
                    Mode{"vocab_1_by_copy_engines",
                         {.transport = CudaTransport::copy, .host_threads = kOneThread},
                         Arithmetic::integer_exact,
                         "vocab-1",
                         sharded()}),
    [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace ppsim::test
