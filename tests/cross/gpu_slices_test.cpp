// The transformer's kernels in slices of a sequence under the executor of streams, on the strict fake: what a
// slice reads of others is told, as everything is.

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "ppsim/core/ir/replicas.hpp"
#include "ppsim/gpu_backend/stage_model/reference.hpp"
#include "support/fake_gpu/transformer_run.hpp"
#include "support/sliced_programs.hpp"

namespace ppsim::gpu_slices_test {

using namespace gpu_backend;
namespace {

using test::FakeGpu;
using test::FaultKind;
using test::for_each_sliced;
using test::run_transformer;
using test::SlicedCase;
using test::SliceLengths;
using test::sound;
using test::Tampered;
using test::Way;

LoweringOptions training() {
  LoweringOptions options;
  options.load = options.reduce_grad = options.optimizer = options.clip = true;
  return options;
}

Program program_of(const std::string& schedule, const SlicedCase& one, const LoweringOptions& lowering = {}) {
  return lower(generate(schedule, one.parameters()).value(), lowering).value();
}

struct Mode {
  std::string name;
  CudaOptions cuda;
  LoweringOptions lowering;
};
class GpuSlices : public testing::TestWithParam<Mode> {};

TEST_P(GpuSlices, GiveTheGradientsAndLossesOfWholeSequencesInExactIntegers) {
  constexpr int kSteps = 2;
  int programs = 0;
  for_each_sliced(
      GetParam().lowering, [&](const std::string& name, const Program& program, const SlicedCase& one) {
        ++programs;
        const TransformerConfig config = test::sliced_transformer(Arithmetic::integer_exact, one.lengths);
        const auto model = make_transformer(config).value();
        const RunResult found = sound(program, config, {.steps = kSteps, .cuda = GetParam().cuda});
        RunOptions on_cpu;
        on_cpu.unverified = true;
        on_cpu.steps = kSteps;
        const auto reference =
            reference_gradients(program.pipeline(), *model, reference_options(program, on_cpu)).value();
        EXPECT_EQ(max_gradient_difference(*model, found.gradients, reference), 0.0) << name;
        EXPECT_EQ(found.losses, execute(program, *model, on_cpu).value().losses) << name;
      });
  EXPECT_GE(programs, 16);
}

INSTANTIATE_TEST_SUITE_P(
    Modes, GpuSlices,
    testing::Values(
        Mode{"streamed", {.host_threads = false}, {}},
        Mode{"graphs", {.graphs = true, .host_threads = false}, training()},
        Mode{"copy_engines", {.transport = CudaTransport::copy, .host_threads = false}, training()},
        Mode{"copy_engines_in_graphs",
             {.transport = CudaTransport::copy, .graphs = true, .host_threads = false},
             {}}),
    [](const auto& one) { return one.param.name; });

TEST(GpuSlices, AreSummedOverReplicas) {
  const TransformerConfig config = test::sliced_transformer(Arithmetic::integer_exact, {3, 2});
  const auto model = make_transformer(config).value();
  const auto one = generate("seq-1f1b", {.ranks = 2, .microbatches = 3, .slices = 2}).value();
  LoweringOptions lowering;
  lowering.reduce_grad = true;
  const Program program = lower(replicated(one, 2).value(), lowering).value();
  const auto reference = reference_gradients(program.pipeline(), *model).value();
  EXPECT_EQ(max_gradient_difference(*model, sound(program, config).gradients, reference), 0.0);
}

/// Sums go slice by slice, in one order: the bits are those of the lengths, not of schedule, mode or
/// transport.
TEST(GpuSlices, HaveTheSameBitsInEveryScheduleAndMode) {
  for (const Arithmetic arithmetic : {Arithmetic::float32, Arithmetic::bf16}) {
    for (const SlicedCase& one : {SlicedCase{2, 4, {4, 4}}, SlicedCase{3, 5, {1, 4, 2}}}) {
      const TransformerConfig config = test::sliced_transformer(arithmetic, one.lengths);
      const RunResult first = sound(program_of("terapipe", one, training()), config, {.steps = 3});
      const CudaOptions other{.transport = CudaTransport::copy, .graphs = true, .host_threads = false};
      const Way way{.steps = 3, .cuda = other};
      const RunResult second = sound(program_of("seq-1f1b", one, training()), config, way);
      EXPECT_EQ(first.gradients, second.gradients) << one.parameters();
      EXPECT_EQ(first.losses, second.losses) << one.parameters();
      TransformerConfig uneven = config;
      std::rotate(uneven.slice_lengths.begin(), uneven.slice_lengths.begin() + 1, uneven.slice_lengths.end());
      if (uneven.slice_lengths == config.slice_lengths) continue;
      EXPECT_NE(sound(program_of("terapipe", one, training()), uneven, {.steps = 3}).gradients,
                first.gradients);
    }
  }
}

TEST(GpuSlices, LearnInBf16AndFp8) {
  for (const Arithmetic arithmetic : {Arithmetic::bf16, Arithmetic::fp8}) {
    TransformerConfig config = test::sliced_transformer(arithmetic, {16, 8});
    config.hidden = 16, config.ffn = 32;
    config.optimizer = Optimizer::adamw;
    config.learning_rate = 0.01;
    const std::vector<double> losses =
        sound(program_of("seq-1f1b", {2, 3, {16, 8}}, training()), config, {.steps = 8}).losses;
    EXPECT_LT(losses.back(), 0.9 * losses.front());
  }
}

const Program& two_slices() {
  static const Program program = program_of("seq-1f1b", {2, 2, {2, 3}}, training());
  return program;
}
TransformerConfig two_slices_config() { return test::sliced_transformer(Arithmetic::float32, {2, 3}); }

/// Leaves out one wait of a stream for an event, counted over those of actions.
Tampered skip_wait(int skipped, int& waits) {
  const test::StepMark mark;
  return run_transformer(two_slices(), two_slices_config(), {.tamper = [&](GpuApi& api) {
                           mark.watch(api);
                           api.cuda.stream_wait_event = [&, wait = api.cuda.stream_wait_event](
                                                            CUstream_st* stream, CUevent_st* event,
                                                            unsigned int flags) {
                             if (mark.in_action() && waits++ == skipped) return kCudaSuccess;
                             return wait(stream, event, flags);
                           };
                         }});
}

TEST(GpuSlices, EveryWaitThatIsLeftOutIsARace) {
  int waits = 0;
  ASSERT_EQ(test::text_of(skip_wait(-1, waits)), "");
  ASSERT_GT(waits, 10);
  for (int skipped = 0; skipped < waits; ++skipped) {
    int ignored = 0;
    const Tampered found = skip_wait(skipped, ignored);
    EXPECT_TRUE(found.found(FaultKind::race) || found.found(FaultKind::never_written)) << "wait " << skipped;
  }
}

/// A run in which product `number` of an action goes to a stream that nothing waits for.
Tampered stray_product(const std::string& action, int number) {
  const test::StepMark mark;
  CUstream_st* stray = nullptr;
  int products = 0;
  Way way;
  way.tamper = [&](GpuApi& api) {
    mark.watch(api);
    api.cuda.stream_create(&stray, kCudaStreamNonBlocking, 0);
  };
  way.faults.cublaslt = [&](CublasLtTable& table) {
    table.multiply = [&, multiply = table.multiply](
                         cublasLtContext* handle, void* operation, const void* alpha, const void* a,
                         void* a_layout, const void* b, void* b_layout, const void* beta, const void* c,
                         void* c_layout, void* d, void* d_layout, const CublasLtAlgorithm* algorithm,
                         void* workspace, std::size_t bytes, CUstream_st* stream) {
      const bool strays = mark.in_action(action) && products++ == number;
      return multiply(handle, operation, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout,
                      algorithm, workspace, bytes, strays ? stray : stream);
    };
  };
  return run_transformer(two_slices(), two_slices_config(), way);
}

/// Whether an action is named that reads what another one has written.
bool reads_too_soon(const Tampered& found, const std::string& reader, const std::string& writer) {
  return std::any_of(found.faults.begin(), found.faults.end(), [&](const test::Fault& fault) {
    const std::size_t both = fault.text.find(" reads what is written by PP:" + writer + " ");
    return fault.kind == FaultKind::race && both != std::string::npos &&
           fault.text.rfind("PP:" + reader + " ", both) != std::string::npos;
  });
}

/// The first product of an F makes the keys and values of its slice.
TEST(GpuSlices, ReadKeysAndValuesOfEarlierSlicesWhenTheyAreReady) {
  const Tampered found = stray_product("1F0.0", 0);
  EXPECT_TRUE(reads_too_soon(found, "1F0.1", "1F0.0")) << test::text_of(found);
  EXPECT_TRUE(reads_too_soon(found, "1B0.1", "1F0.0")) << test::text_of(found);
}

/// Behind those of the head, of three weights and of two times scores comes the gradient of the values of the
/// first slice.
TEST(GpuSlices, TakeGradientsFromLaterSlicesWhenTheyAreReady) {
  const Tampered found = stray_product("1B0.1", 1 + 3 + 2);
  EXPECT_TRUE(reads_too_soon(found, "1B0.0", "1B0.1")) << test::text_of(found);
}

}  // namespace
}  // namespace ppsim::gpu_slices_test
