// The transformer's own code for GPUs under the executor of streams, on the strict fake: every kernel tells
// it what it reads and writes.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/gpu_backend/stage_model/reference.hpp"
#include "ppsim/gpu_backend/transformer/transformer.hpp"
#include "ppsim/planner/verified_run.hpp"
#include "ppsim/schedules/registry.hpp"
#include "support/fake_gpu/run.hpp"
#include "support/fake_gpu/transformer.hpp"
#include "support/host_gpu_model.hpp"
#include "support/registered_programs.hpp"
#include "support/small_transformer.hpp"

namespace ppsim::gpu_transformer_test {

using namespace gpu_backend;
namespace {

using test::FakeGpu;
using test::FakeRunOptions;
using test::FaultKind;

TransformerConfig config_of(Arithmetic arithmetic) { return test::small_transformer(4, arithmetic); }

test::MakeGpuModel transformer_on(FakeGpu& gpu, const TransformerConfig& config,
                                  const test::TransformerFaults& faults = {}) {
  return
      [&gpu, config, faults](const GpuApi& api) { return test::fake_transformer(gpu, api, config, faults); };
}

LoweringOptions recomputing() {
  LoweringOptions options;
  options.recompute = Recompute::full;
  return options;
}

LoweringOptions training_options() {
  LoweringOptions options;
  options.load = options.reduce_grad = options.optimizer = options.clip = true;
  return options;
}

Program program_of(const std::string& name, const ScheduleParameters& parameters,
                   const LoweringOptions& options) {
  return lower(generate(name, parameters).value(), options).value();
}

struct Mode {
  std::string name;
  CudaOptions options;
  LoweringOptions lowering;
};

class GpuTransformerOnFake : public testing::TestWithParam<Mode> {};

TEST_P(GpuTransformerOnFake, HasTheGradientsAndLossesOfTheCpuInExactIntegers) {
  const TransformerConfig config = config_of(Arithmetic::integer_exact);
  const auto model = make_transformer(config).value();
  const ScheduleParameters shapes[] = {{.ranks = 1, .microbatches = 2},
                                       {.ranks = 3, .microbatches = 4},
                                       {.ranks = 2, .microbatches = 4, .chunks = 2},
                                       {.ranks = 2, .microbatches = 4, .chunks = 4},
                                       {.ranks = 4, .microbatches = 8, .chunks = 2}};
  const auto check = [&](const std::string& name, const Program& program) {
    FakeGpu gpu(test::devices_for(program));
    const auto found = test::run_kernels_on_fake(gpu, program, transformer_on(gpu, config),
                                                 {.cuda = GetParam().options, .steps = 2});
    EXPECT_TRUE(gpu.faults().empty()) << name << '\n' << faults_of(gpu);
    ASSERT_TRUE(found) << name << ": " << to_string(found.error());
    ASSERT_EQ(found->outcome, RunOutcome::finished) << name;
    RunOptions on_cpu;
    on_cpu.unverified = true;
    on_cpu.steps = 2;
    const RunResult expected = execute(program, *model, on_cpu).value();
    EXPECT_EQ(found->gradients, expected.gradients) << name;
    EXPECT_EQ(found->losses, expected.losses) << name;
  };
  const LoweringOptions& lowering = GetParam().lowering;
  const auto found = test::for_each_registered(*test::host_gpu_model(config), shapes, lowering, check);
  const test::Reasons& refused = lowering.optimizer ? test::not_updated() : test::not_computed();
  const bool recomputes = lowering.recompute == recomputing().recompute;
  EXPECT_EQ(test::surprises(found, recomputes ? test::not_recomputed(refused) : refused), "");
}

INSTANTIATE_TEST_SUITE_P(
    Modes, GpuTransformerOnFake,
    testing::Values(Mode{"streamed", {.host_threads = false}, {}},
                    Mode{"graphs", {.graphs = true, .host_threads = false}, {}},
                    Mode{"training", {.host_threads = false}, training_options()},
                    Mode{"training_as_graphs", {.graphs = true, .host_threads = false}, training_options()},
                    Mode{"recomputing", {.host_threads = false}, recomputing()},
                    Mode{"copy_engines",
                         {.transport = CudaTransport::copy, .graphs = true, .host_threads = false},
                         training_options()}),
    [](const auto& one) { return one.param.name; });

/// One step of a training Program on two ranks, in float32: products are cuBLASLt's.
struct Tampered {
  std::vector<test::Fault> faults;
  Expected<RunResult> result;

  [[nodiscard]] bool races(const std::string& text = "") const {
    return std::any_of(faults.begin(), faults.end(), [&](const test::Fault& f) {
      return (f.kind == FaultKind::race || f.kind == FaultKind::never_written) &&
             f.text.find(text) != std::string::npos;
    });
  }
};
Tampered run_tampered(const std::function<void(GpuApi&)>& tamper,
                      const test::TransformerFaults& faults = {}) {
  const Program program = program_of("zb-h1", {.ranks = 2, .microbatches = 2}, training_options());
  FakeGpu gpu(test::devices_for(program));
  const FakeRunOptions options{.tamper = tamper};
  auto result = test::run_kernels_on_fake(
      gpu, program, transformer_on(gpu, config_of(Arithmetic::float32), faults), options);
  return {gpu.faults(), std::move(result)};
}

/// Leaves out one wait of a stream for an event, counted over those of actions.
Tampered skip_wait(int skipped, int& waits) {
  return run_tampered([&](GpuApi& api) {
    const auto open = std::make_shared<std::vector<std::string>>();
    api.marks.push = [open, push = api.marks.push](const char* name) {
      open->emplace_back(name);
      push(name);
    };
    api.marks.pop = [open, pop = api.marks.pop] {
      open->pop_back();
      pop();
    };
    api.cuda.stream_wait_event = [open, skipped, &waits, wait = api.cuda.stream_wait_event](
                                     CUstream_st* stream, CUevent_st* event, unsigned int flags) {
      const bool in_action = open->size() == 2 && open->front() == "PP:step";
      if (in_action && waits++ == skipped) return kCudaSuccess;
      return wait(stream, event, flags);
    };
  });
}

TEST(GpuTransformerFaults, EveryWaitThatIsLeftOutIsARace) {
  int waits = 0;
  const Tampered whole = skip_wait(-1, waits);
  ASSERT_TRUE(whole.result && whole.faults.empty());
  ASSERT_GT(waits, 10);
  for (int skipped = 0; skipped < waits; ++skipped) {
    int ignored = 0;
    EXPECT_TRUE(skip_wait(skipped, ignored).races()) << "wait " << skipped;
  }
}

TEST(GpuTransformerFaults, AKernelOnAnotherStreamIsARaceThatNamesItsAction) {
  const auto stray = std::make_shared<CUstream_st*>(nullptr);
  const test::TransformerFaults faults{.kernels = [stray](cuda::KernelTable& kernels) {
    kernels.gate = [stray, gate = kernels.gate](void*, cuda::Stored stored, const cuda::Gate& call) {
      return gate(*stray, stored, call);
    };
  }};
  const Tampered run = run_tampered(
      [stray](GpuApi& api) { api.cuda.stream_create(stray.get(), kCudaStreamNonBlocking, 0); }, faults);
  EXPECT_TRUE(run.races("PP:0F0"));
}

/// A rank's products share a workspace, so that two of them at once would be a race.
TEST(GpuTransformerFaults, AProductOnAnotherStreamIsARaceToo) {
  const auto stray = std::make_shared<CUstream_st*>(nullptr);
  const test::TransformerFaults faults{.cublaslt = [stray](CublasLtTable& table) {
    table.multiply = [stray, products = std::make_shared<int>(0), multiply = table.multiply](
                         cublasLtContext* handle, void* operation, const void* alpha, const void* a,
                         void* a_layout, const void* b, void* b_layout, const void* beta, const void* c,
                         void* c_layout, void* d, void* d_layout, const CublasLtAlgorithm* algorithm,
                         void* workspace, std::size_t bytes, CUstream_st* stream) {
      return multiply(handle, operation, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout,
                      algorithm, workspace, bytes, ++*products == 7 ? *stray : stream);
    };
  }};
  const Tampered run = run_tampered(
      [stray](GpuApi& api) { api.cuda.stream_create(stray.get(), kCudaStreamNonBlocking, 0); }, faults);
  EXPECT_TRUE(run.races());
}

/// Steps of training in real numbers.
RunResult train(const std::string& schedule, const TransformerConfig& config, const CudaOptions& options) {
  constexpr int kSteps = 6;
  const Program program = program_of(schedule, {.ranks = 2, .microbatches = 3}, training_options());
  FakeGpu gpu(test::devices_for(program));
  auto result = test::run_kernels_on_fake(gpu, program, transformer_on(gpu, config),
                                          {.cuda = options, .steps = kSteps});
  EXPECT_TRUE(gpu.faults().empty()) << faults_of(gpu);
  EXPECT_TRUE(result) << to_string(result.error());
  return std::move(result).value();
}
std::vector<double> losses_on_cpu(const std::string& schedule, const TransformerConfig& config, int steps) {
  RunOptions options;
  options.unverified = true;
  options.steps = steps;
  const Program program = program_of(schedule, {.ranks = 2, .microbatches = 3}, training_options());
  return execute(program, *make_transformer(config).value(), options).value().losses;
}

TEST(GpuTransformerTraining, LosesWhatTheCpuLosesInFloat32) {
  for (const Optimizer optimizer : {Optimizer::momentum, Optimizer::adamw}) {
    TransformerConfig config = config_of(Arithmetic::float32);
    config.optimizer = optimizer;
    config.learning_rate = optimizer == Optimizer::adamw ? 0.01 : 0.02;
    const RunResult streamed = train("1f1b", config, {.host_threads = false});
    const std::vector<double> expected = losses_on_cpu("1f1b", config, 6);
    ASSERT_EQ(streamed.losses.size(), expected.size());
    EXPECT_LT(streamed.losses.back(), streamed.losses.front());
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(streamed.losses[i], expected[i], 1e-4 * expected[i]) << "step " << i;
    // Every bit is the same in other schedules and modes, where weights are summed in ascending order.
    const RunResult graphs = train("zb-h1", config, {.graphs = true, .host_threads = false});
    EXPECT_EQ(graphs.losses, streamed.losses);
    EXPECT_EQ(graphs.gradients, streamed.gradients);
  }
}

TEST(GpuTransformerTraining, LearnsInBf16AsInFloat32) {
  TransformerConfig config = config_of(Arithmetic::bf16);
  config.optimizer = Optimizer::adamw;
  config.learning_rate = 0.01;
  const RunResult run = train("1f1b", config, {.graphs = true, .host_threads = false});
  config.arithmetic = Arithmetic::float32;
  const std::vector<double> expected = losses_on_cpu("1f1b", config, 6);
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(run.losses[i], expected[i], 0.02 * expected[i]) << "step " << i;
}

}  // namespace
}  // namespace ppsim::gpu_transformer_test
