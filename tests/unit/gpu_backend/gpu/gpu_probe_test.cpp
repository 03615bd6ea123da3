// The questions of scripts/gpu_check and gpu_bench to a GPU, asked of the strict fake.

#include <gtest/gtest.h>

#include <sstream>

#include "support/fake_gpu/fake_gpu.hpp"
#include "support/gpu_probe/attention_times.hpp"
#include "support/gpu_probe/kernel_times.hpp"
#include "support/gpu_probe/nccl_answers.hpp"
#include "support/gpu_probe/partition_times.hpp"
#include "support/gpu_probe/product_times.hpp"
#include "support/gpu_probe/queue_answers.hpp"
#include "support/host_cudnn.hpp"
#include "support/host_kernels.hpp"

namespace ppsim::test {
namespace {

constexpr Nanoseconds kKernel = 1000;

/// A fake whose kernels take the same time each.
class GpuProbe : public testing::Test {
 protected:
  void TearDown() override {
    while (gpu_.advance()) continue;  // work left on a stream uses freed memory
    gpu_.check_teardown();
    std::ostringstream text;
    for (const Fault& fault : gpu_.faults()) text << fault << '\n';
    EXPECT_EQ(text.str(), "");
  }
  [[nodiscard]] ProbeMachine machine() {
    const HostQueue queue = [this](void* stream, const KernelAccess& access,
                                   const std::function<void()>& work) {
      gpu_.launch(static_cast<CUstream_st*>(stream),
                  {.duration = kKernel, .reads = access.reads, .writes = access.writes, .work = work});
      return 0;
    };
    ProbeMachine made{gpu_.api(), host_cublaslt(queue), host_kernels(queue),
                      host_cudnn(queue, {.engines = 3})};
    // The result of the work does not matter, and computing it is slow on a processor.
    made.kernels.ring_product = [this](void* stream, const cuda::RingProduct&) {
      gpu_.launch(static_cast<CUstream_st*>(stream), {.duration = kKernel});
      return 0;
    };
    return made;
  }

  FakeGpu gpu_;
};

TEST_F(GpuProbe, TimesTheProductsOfAStage) {
  TransformerConfig config;
  config.hidden = 8;
  config.ffn = 8;
  config.vocab = 8;
  config.sequence = 8;
  const auto times = time_products(machine(), config, 4);
  ASSERT_EQ(times.size(), 5U * 3U);
  for (const ProductTime& one : times) {
    EXPECT_EQ(one.backend_ns, kKernel) << one.weights << one.action;
    EXPECT_EQ(one.plain_ns, kKernel) << one.weights << one.action;
    EXPECT_EQ(one.told_ns, kKernel) << one.weights << one.action;
    EXPECT_EQ(one.best_ns, kKernel) << one.weights << one.action;
  }
  EXPECT_EQ(times[2].action, "W");
  EXPECT_EQ((std::vector{times[2].rows, times[2].columns, times[2].inner}),
            (std::vector<std::int64_t>{8, 24, 8}));
}

/// Of three algorithms the second is fast: the backend pins it, a plain call takes the first one.
TEST_F(GpuProbe, FindsTheFastestOfAllAlgorithms) {
  ProbeMachine made = machine();
  made.cublaslt.multiply = [this](auto&&... arguments) {
    const auto all = std::forward_as_tuple(arguments...);
    const bool fast = std::get<12>(all)->data[1] == 1;
    gpu_.launch(std::get<15>(all), {.duration = fast ? kKernel : 2 * kKernel});
    return 0;
  };
  TransformerConfig config;
  config.hidden = config.ffn = config.vocab = config.sequence = 8;
  for (const ProductTime& one : time_products(made, config, 4)) {
    EXPECT_EQ(one.backend_ns, kKernel);
    EXPECT_EQ(one.plain_ns, 2 * kKernel);
    EXPECT_EQ(one.best_ns, kKernel);
    EXPECT_EQ(one.algorithms, 3);
  }
}

TEST_F(GpuProbe, TimesAttentionByEachOfCudnnsPlans) {
  TransformerConfig config;
  config.hidden = 16;
  config.heads = 2;
  config.sequence = 8;
  config.arithmetic = Arithmetic::bf16;
  for (const AttentionTime& one : time_attention(machine(), config, 4))
    EXPECT_EQ(one.plans_ns, std::vector<Nanoseconds>(3, kKernel)) << one.direction;
}

TEST_F(GpuProbe, TimesElementWiseKernelsBesideACopy) {
  TransformerConfig config;
  config.hidden = config.ffn = 8;
  config.sequence = 4;
  const KernelTimes times = time_kernels(machine(), config);
  ASSERT_EQ(times.kernels.size(), 6U);
  EXPECT_EQ(times.copy.bytes, 2 * 4 * 8 * 2);
  const KernelTime& gate = times.kernels[3];
  EXPECT_EQ(gate.kernel, "gate");
  EXPECT_EQ(gate.bytes, 3 * 4 * 8 * 2) << "two matrices are read, and one is written";
  EXPECT_EQ(gate.ns, kKernel);
  EXPECT_DOUBLE_EQ(times.over_copy(times.copy), 1);
  EXPECT_DOUBLE_EQ(times.over_copy(gate) * 1.5 * static_cast<double>(times.copy.ns), kKernel);
}

TEST_F(GpuProbe, PartsOfTheFakeRunAtOnce) {
  for (const auto& [parts, graphs] : {std::pair(4, false), {4, true}, {8, false}, {8, true}}) {
    const PartitionTimes times = time_partitions(machine(), parts, graphs);
    EXPECT_EQ(times.multiprocessors, 128 / parts);
    EXPECT_EQ(times.alone_ns, std::vector<Nanoseconds>(static_cast<std::size_t>(parts), times.whole_ns));
    EXPECT_EQ(times.together_ns, times.alone_ns);
    EXPECT_EQ(times.span_ns, times.whole_ns);
    EXPECT_DOUBLE_EQ(times.concurrency(), parts);
  }
}

TEST_F(GpuProbe, KernelsRunBesideStreamsThatWait) {
  for (const bool graphs : {false, true}) {
    const WaitingStreams result = run_beside_waiting(machine(), 4, 16, graphs);
    EXPECT_EQ(result.waiting, 16);
    EXPECT_TRUE(result.kernels_run) << graphs;
    EXPECT_TRUE(result.all_released) << graphs;
  }
}

TEST_F(GpuProbe, QueuesOfTheFakeAreNeverFull) {
  const FullQueue result = fill_queue(machine(), 4);
  EXPECT_EQ(result.held_after, result.launches);
  EXPECT_TRUE(result.others_run);
  EXPECT_TRUE(result.released);
}

TEST_F(GpuProbe, CopiesOfTheFakeTakeNoMultiprocessors) {
  const CopyTimes times = time_copies(machine(), 4);
  EXPECT_EQ(times.copy_ns, times.whole_ns);
  EXPECT_EQ(times.work_beside_ns, times.work_ns);
  EXPECT_EQ(times.copy_beside_ns, times.copy_ns);
}

TEST_F(GpuProbe, TimesCalls) {
  const auto calls = time_calls(machine(), 4);
  ASSERT_EQ(calls.size(), 6U);
  EXPECT_EQ(calls.front().call, "kernel launch");
}

TEST_F(GpuProbe, ARankSendsToItselfInAGroup) { EXPECT_EQ(send_to_itself(machine(), true), "completes"); }

/// As a library of an H100 has it: an error, and no wait.
TEST_F(GpuProbe, ARankThatSendsToItselfAloneIsRefused) {
  EXPECT_EQ(send_to_itself(machine(), false), "refused by the fake");
}

TEST_F(GpuProbe, TwoRanksOnADeviceAreRefused) {
  EXPECT_EQ(two_ranks_on_a_device(machine()), "refused by the fake");
}

}  // namespace
}  // namespace ppsim::test
