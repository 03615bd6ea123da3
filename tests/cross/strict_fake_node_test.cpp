// The questions of scripts/gpu_check --node for eight devices of a host, and for two such hosts, on the
// strict fake.

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/gpu_backend/stage_model/reference.hpp"
#include "ppsim/schedules/registry.hpp"
#include "support/fake_gpu/run.hpp"
#include "support/small_transformer.hpp"

namespace ppsim::strict_fake_node_test {
namespace {

constexpr int kDevices = 8;

/// Messages alone, both kinds of backward in a V, and sums over two ranks with updates.
std::vector<Program> node_programs(int ranks) {
  LoweringOptions updates;
  updates.reduce_grad = updates.optimizer = updates.clip = true;
  const ScheduleParameters shape{.ranks = ranks, .microbatches = 2 * ranks};
  return {lower(generate("1f1b", shape).value(), {}).value(),
          lower(generate("zb-v", shape).value(), updates).value(),
          lower(generate("chimera", shape).value(), updates).value()};
}

/// Processes that count those of their host from 0.
class OnHosts final : public Bootstrap {
 public:
  OnHosts(Bootstrap& all, int each) : all_(all), each_(each) {}

  [[nodiscard]] int process() const override { return all_.process(); }
  [[nodiscard]] int size() const override { return all_.size(); }
  [[nodiscard]] int local_process() const override { return all_.process() % each_; }
  Expected<std::vector<std::string>> allgather(const std::string& bytes, Timeout timeout) override {
    return all_.allgather(bytes, timeout);
  }
  Expected<std::vector<std::string>> gather(const std::string& bytes, Timeout timeout) override {
    return all_.gather(bytes, timeout);
  }
  void send_heartbeat() override { all_.send_heartbeat(); }
  void note(const std::string& note) override { all_.note(note); }
  void stop(const Error& error) override { all_.stop(error); }
  Expected<void> resume() override { return all_.resume(); }
  void listen(BootstrapListener* listener) override { all_.listen(listener); }
  void give_up(int process) override { all_.give_up(process); }
  [[nodiscard]] std::vector<int> gone() const override { return all_.gone(); }
  Expected<std::vector<ClockOffset>> clock_offsets(Timeout timeout) override {
    return all_.clock_offsets(timeout);
  }

 private:
  Bootstrap& all_;
  int each_;
};

/// The result of process 0; the processes are threads that share the devices.
Expected<RunResult> on_node(test::FakeGpu& gpu, const Program& program, const CudaOptions& cuda,
                            int processes) {
  const auto model = test::exact_transformer(2 * program.pipeline().ranks());
  test::FakeRunOptions options{.cuda = cuda, .steps = 2};
  if (processes == 1) return test::run_on_fake(gpu, program, *model, options);
  const auto ends = in_process_bootstraps(processes).value();
  std::vector<Expected<RunResult>> results(ends.size());
  std::vector<std::jthread> threads;
  for (std::size_t p = 0; p < ends.size(); ++p) {
    threads.emplace_back([&, p, own = options]() mutable {
      OnHosts bootstrap(*ends[p], kDevices);
      own.processes = &bootstrap;
      own.tamper = [&gpu, p](gpu_backend::GpuApi& api) { api = gpu.api(static_cast<int>(p) / kDevices); };
      results[p] = test::run_on_fake(gpu, program, *model, own);
    });
  }
  threads.clear();
  gpu.check_teardown();
  return results.front();
}

void expect_right(const CudaOptions& cuda, int ranks, int processes) {
  for (const Program& program : node_programs(ranks)) {
    const auto model = test::exact_transformer(2 * ranks);
    test::FakeGpu gpu({.devices = kDevices, .jumps = false});
    const auto result = on_node(gpu, program, cuda, processes);
    EXPECT_TRUE(gpu.faults().empty()) << faults_of(gpu);
    ASSERT_TRUE(result) << to_string(result.error());
    RunOptions run;
    run.steps = 2;
    const auto reference =
        reference_gradients(program.pipeline(), *model, reference_options(program, run)).value();
    EXPECT_EQ(max_gradient_difference(*model, result->gradients, reference), 0.0);
  }
}

struct NodeMeans {
  std::string name;
  CudaOptions cuda;
  int processes;
};
class StrictFakeNode : public testing::TestWithParam<NodeMeans> {};

TEST_P(StrictFakeNode, GivesTheGradientsOfTheUnpipelinedModel) {
  expect_right(GetParam().cuda, kDevices, GetParam().processes);
}

constexpr CudaTransport kCopy = CudaTransport::copy;
INSTANTIATE_TEST_SUITE_P(
    Means, StrictFakeNode,
    testing::Values(
        NodeMeans{"copies_of_one_process", {.transport = kCopy, .host_threads = false}, 1},
        NodeMeans{"copies_as_a_graph", {.transport = kCopy, .graphs = true, .host_threads = false}, 1},
        NodeMeans{"copies_between_processes", {.transport = kCopy, .host_threads = false}, kDevices},
        NodeMeans{"nccl_in_one_process", {.host_threads = false}, 1},
        NodeMeans{"nccl_between_processes", {.host_threads = false}, kDevices},
        NodeMeans{"nccl_as_graphs", {.graphs = true, .host_threads = false}, kDevices}),
    [](const auto& one) { return one.param.name; });

TEST(StrictFakeNodes, TwoHostsGiveTheGradientsOfTheUnpipelinedModel) {
  for (const bool graphs : {false, true})
    expect_right({.graphs = graphs, .host_threads = false}, 2 * kDevices, 2 * kDevices);
}

}  // namespace
}  // namespace ppsim::strict_fake_node_test
