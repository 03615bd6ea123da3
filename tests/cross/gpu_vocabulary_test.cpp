// The transformer's kernels for shards of the vocabulary under the executor of streams, on the strict fake:
// the gradients and losses of the whole vocabulary, and what shards share is told, as everything is.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <stdexcept>

#include "ppsim/core/ir/replicas.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/gpu_backend/stage_model/reference.hpp"
#include "support/fake_gpu/transformer_run.hpp"
#include "support/vocabulary_cases.hpp"

namespace ppsim::gpu_vocabulary_test {

using namespace gpu_backend;
namespace {

using test::FakeGpu;
using test::FaultKind;
using test::run_transformer;
using test::schedule_of;
using test::sound;
using test::Tampered;
using test::vocabulary_transformer;
using test::Way;
using Case = test::VocabularyCase;

constexpr CudaOptions kStreamed{.host_threads = false};
constexpr CudaOptions kCopiesInGraphs{
    .transport = CudaTransport::copy, .graphs = true, .host_threads = false};

LoweringOptions training() {
  LoweringOptions options;
  options.load = options.unshard = options.reduce_grad = options.optimizer = options.clip = true;
  return options;
}

Program in_shards(const Case& one, const LoweringOptions& lowering = {}) {
  return lower(schedule_of(one), lowering).value();
}
Program whole(const Case& one, const LoweringOptions& lowering = {}) {
  const ScheduleParameters parameters{.ranks = one.ranks, .microbatches = one.microbatches};
  return lower(generate("1f1b", parameters).value(), lowering).value();
}

RunResult on_cpu(const Program& program, const TransformerConfig& config, int steps = 1) {
  RunOptions options;
  options.unverified = true;
  options.steps = steps;
  return execute(program, *make_transformer(config).value(), options).value();
}

struct Mode {
  std::string name;
  CudaOptions cuda;
};
class GpuVocabulary : public testing::TestWithParam<Mode> {};

TEST_P(GpuVocabulary, InShardsHasTheGradientsOfTheWholeInExactIntegers) {
  const TransformerConfig config = vocabulary_transformer(Arithmetic::integer_exact);
  for (const Case& one : test::vocabulary_cases()) {
    if (one.ranks == 7) continue;
    SCOPED_TRACE(one);
    const RunResult found = sound(in_shards(one), config, {.cuda = GetParam().cuda});
    const RunResult expected = on_cpu(whole(one), config);
    EXPECT_TRUE(test::in_shards<std::uint64_t>(config, found.gradients, one) ==
                test::in_one<std::uint64_t>(config, expected.gradients, one));
    EXPECT_EQ(found.losses, expected.losses);
  }
}

TEST_P(GpuVocabulary, InShardsIsUpdatedAsOnTheCpuInExactIntegers) {
  const TransformerConfig config = vocabulary_transformer(Arithmetic::integer_exact);
  for (const char* name : {"vocab-1", "vocab-2"}) {
    SCOPED_TRACE(name);
    const Program program = in_shards({name, "sharded", 3, 4}, training());
    const RunResult found = sound(program, config, {.steps = 3, .cuda = GetParam().cuda});
    const RunResult expected = on_cpu(program, config, 3);
    EXPECT_EQ(found.gradients, expected.gradients);
    EXPECT_EQ(found.losses, expected.losses);
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, GpuVocabulary,
                         testing::Values(Mode{"streamed", kStreamed}, Mode{"a_thread_for_each_rank", {}},
                                         Mode{"without_profile", {.profile = false, .host_threads = false}},
                                         Mode{"graphs", {.graphs = true, .host_threads = false}},
                                         Mode{"copy_engines",
                                              {.transport = CudaTransport::copy, .host_threads = false}},
                                         Mode{"copy_engines_in_graphs", kCopiesInGraphs}),
                         [](const auto& one) { return one.param.name; });

TEST(GpuVocabulary, InShardsIsSummedOverReplicas) {
  const TransformerConfig config = vocabulary_transformer(Arithmetic::integer_exact);
  const auto model = make_transformer(config).value();
  LoweringOptions lowering;
  lowering.reduce_grad = lowering.optimizer = true;
  for (const Case& one : {Case{"vocab-1", "sharded", 2, 3}, Case{"vocab-2", "first", 2, 3}}) {
    SCOPED_TRACE(one);
    const Program program = lower(replicated(schedule_of(one), 2).value(), lowering).value();
    const ReferenceOptions options{.steps = 2, .update = true};
    const auto reference = reference_gradients(program.pipeline(), *model, options).value();
    const RunResult found = sound(program, config, {.steps = 2});
    EXPECT_EQ(max_gradient_difference(*model, found.gradients, reference), 0.0);
  }
}

/// Parts are combined in ascending rank order on every member: schedules of one B, modes and transports have
/// one result.
TEST(GpuVocabulary, HasTheSameBitsInEveryModeAndWithItsBackwardInTwoParts) {
  for (const Arithmetic arithmetic : {Arithmetic::float32, Arithmetic::bf16}) {
    const TransformerConfig config = vocabulary_transformer(arithmetic);
    for (const Case& one : {Case{"vocab-1", "sharded", 3, 4}, Case{"vocab-2", "sharded", 3, 4}}) {
      SCOPED_TRACE(one);
      const RunResult first = sound(in_shards(one, training()), config, {.steps = 3});
      const Program split = lower(test::with_split_backward(schedule_of(one)), training()).value();
      const RunResult second = sound(split, config, {.steps = 3, .cuda = kCopiesInGraphs});
      EXPECT_EQ(first.gradients, second.gradients);
      EXPECT_EQ(first.losses, second.losses);
    }
  }
}

TEST(GpuVocabulary, InShardsIsTrainedLikeTheWhole) {
  for (const auto& [arithmetic, tolerance] :
       {std::pair(Arithmetic::float32, 1e-4), std::pair(Arithmetic::bf16, 0.02)}) {
    for (const Optimizer optimizer : {Optimizer::momentum, Optimizer::adamw}) {
      TransformerConfig config = vocabulary_transformer(arithmetic);
      config.optimizer = optimizer;
      config.learning_rate = 0.02;
      for (const Case& one : {Case{"vocab-1", "sharded", 3, 4}, Case{"vocab-2", "first", 3, 4}}) {
        SCOPED_TRACE(one);
        const std::vector<double> found = sound(in_shards(one, training()), config, {.steps = 6}).losses;
        TransformerConfig wide = config;
        wide.arithmetic = Arithmetic::float32;
        const std::vector<double> expected = on_cpu(whole(one, training()), wide, 6).losses;
        ASSERT_EQ(found.size(), 6U);
        for (std::size_t step = 0; step < 6; ++step)
          EXPECT_NEAR(found[step], expected[step], tolerance * expected[step]) << "step " << step;
        EXPECT_LT(expected[5], expected[0]);
      }
    }
  }
}

TEST(GpuVocabulary, InShardsLearnsInFp8) {
  TransformerConfig config = vocabulary_transformer(Arithmetic::fp8);
  config.hidden = 16, config.ffn = 32, config.sequence = 16;
  config.optimizer = Optimizer::adamw;
  config.learning_rate = 0.02;
  const std::vector<double> losses =
      sound(in_shards({"vocab-2", "sharded", 2, 3}, training()), config, {.steps = 8}).losses;
  EXPECT_LT(losses.back(), 0.95 * losses.front());
}

const Case kTampered{"vocab-2", "sharded", 2, 2};
TransformerConfig tampered_config() { return vocabulary_transformer(Arithmetic::float32); }

/// Leaves out one wait of a stream for an event, counted over those of actions.
Tampered skip_wait(const Program& program, int skipped, int& waits) {
  const test::StepMark mark;
  return run_transformer(program, tampered_config(), {.tamper = [&](GpuApi& api) {
                           mark.watch(api);
                           api.cuda.stream_wait_event = [&, wait = api.cuda.stream_wait_event](
                                                            CUstream_st* stream, CUevent_st* event,
                                                            unsigned int flags) {
                             if (mark.in_action() && waits++ == skipped) return kCudaSuccess;
                             return wait(stream, event, flags);
                           };
                         }});
}

/// Without collectives of a single rank, for which nothing needs to wait.
TEST(GpuVocabulary, EveryWaitThatIsLeftOutIsARace) {
  LoweringOptions lowering;
  lowering.load = lowering.optimizer = lowering.clip = true;
  const Program program = in_shards(kTampered, lowering);
  int waits = 0;
  ASSERT_EQ(test::text_of(skip_wait(program, -1, waits)), "");
  ASSERT_GT(waits, 10);
  for (int skipped = 0; skipped < waits; ++skipped) {
    int ignored = 0;
    const Tampered found = skip_wait(program, skipped, ignored);
    EXPECT_TRUE(found.found(FaultKind::race) || found.found(FaultKind::never_written)) << "wait " << skipped;
  }
}

/// A run in which a kernel goes to a stream that nothing waits for.
template <class Call>
Tampered stray(std::function<int(void*, cuda::Stored, const Call&)> cuda::KernelTable::*kernel) {
  CUstream_st* other = nullptr;
  Way way;
  way.tamper = [&](GpuApi& api) { api.cuda.stream_create(&other, kCudaStreamNonBlocking, 0); };
  way.faults.kernels = [&](cuda::KernelTable& table) {
    table.*kernel = [&, real = table.*kernel](void*, cuda::Stored stored, const Call& call) {
      return real(other, stored, call);
    };
  };
  return run_transformer(in_shards(kTampered), tampered_config(), way);
}

TEST(GpuVocabulary, AKernelOfShardsOnAnotherStreamIsARace) {
  EXPECT_TRUE(stray(&cuda::KernelTable::open_loss).found(FaultKind::race, "PP:2F0"));
  EXPECT_TRUE(stray(&cuda::KernelTable::target_weights).found(FaultKind::race, "PP:2F0"));
  EXPECT_TRUE(stray(&cuda::KernelTable::close_loss).found(FaultKind::race, "PP:2B0"));
  EXPECT_TRUE(stray(&cuda::KernelTable::merge_loss).found(FaultKind::race, "COLL"));
  EXPECT_TRUE(stray(&cuda::KernelTable::sum_parts).found(FaultKind::race, "COLL"));
}

std::string refusal(const Program& program, const TransformerConfig& config) {
  const Tampered found = run_transformer(program, config);
  return found.result ? "" : to_string(found.result.error());
}

TEST(GpuVocabulary, IsRefusedAsOnTheCpu) {
  const TransformerConfig config = vocabulary_transformer(Arithmetic::bf16);
  LoweringOptions recomputed;
  recomputed.recompute = Recompute::full;
  EXPECT_EQ(refusal(in_shards({"vocab-1", "first", 2, 2}, recomputed), config),
            "the transformer shares the statistics of its loss where F of a shard has saved them (found 2R0, "
            "expected neither R nor OFFLOAD nor SEND_A)");
  TransformerConfig few = config;
  few.vocab = 4;
  EXPECT_EQ(refusal(in_shards({"vocab-1", "first", 5, 2}), few),
            "the transformer cannot run this pipeline: collective softmax computes a part of a microbatch in "
            "5 shards of a vocabulary of 4 tokens");
}

}  // namespace
}  // namespace ppsim::gpu_vocabulary_test
