// Products by the fastest of their algorithms, on the strict fake: found before the first step, the same on
// all ranks, schedules, modes and processes.

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <tuple>

#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/gpu_backend/stage_model/algorithms.hpp"
#include "ppsim/schedules/registry.hpp"
#include "support/fake_gpu/run.hpp"
#include "support/fake_gpu/tampered.hpp"
#include "support/fake_gpu/transformer.hpp"
#include "support/small_transformer.hpp"

namespace ppsim::pinned_algorithms_test {

using namespace gpu_backend;
namespace {

using test::FakeGpu;

constexpr std::uint64_t kFirst = 0;   // of the three that the stand-in for cuBLASLt suggests
constexpr std::uint64_t kSecond = 1;  // adds in the opposite order
constexpr std::uint64_t kThird = 2;

/// The products that were computed, and by which algorithms.
struct Seen {
  std::atomic<int> before_steps = 0, in_steps = 0, suggestions_in_steps = 0;
  std::set<std::uint64_t> algorithms;  ///< in steps
};

/// One run: what it is given, and what it leaves.
struct Setting {
  Algorithms* algorithms = nullptr;
  std::uint64_t fastest = kSecond;
  std::string schedule = "zb-h1";
  bool graphs = false;
  Arithmetic arithmetic = Arithmetic::float32;
  Bootstrap* processes = nullptr;
  Seen* seen = nullptr;
  std::function<void(CublasLtTable&)> tamper = {};
};

Program program_of(const std::string& schedule) {
  LoweringOptions options;
  options.optimizer = true;
  return lower(generate(schedule, {.ranks = 2, .microbatches = 4}).value(), options).value();
}

TransformerConfig config_of(Arithmetic arithmetic) {
  TransformerConfig config = test::small_transformer(4, arithmetic);
  if (arithmetic == Arithmetic::fp8) config.hidden = config.ffn = config.sequence = config.vocab = 16;
  return config;
}

/// All algorithms but one take an additional kernel; what runs in a step is seen.
test::TransformerFaults watched(FakeGpu& gpu, const Setting& setting, const test::StepMark& mark) {
  return {.cublaslt = [&gpu, &setting, mark](CublasLtTable& table) {
    table.multiply = [&gpu, &setting, mark, multiply = table.multiply](auto... arguments) {
      const auto all = std::forward_as_tuple(arguments...);
      const std::uint64_t algorithm = std::get<12>(all)->data[1];
      const bool in_step = !mark.open->empty() && mark.open->front() == "PP:step";
      if (setting.seen != nullptr) {
        ++(in_step ? setting.seen->in_steps : setting.seen->before_steps);
        if (in_step) setting.seen->algorithms.insert(algorithm);
      }
      if (algorithm != setting.fastest) gpu.launch(std::get<15>(all), {.duration = 100});
      return multiply(arguments...);
    };
    table.choose = [&setting, mark, choose = table.choose](auto... arguments) {
      const bool in_step = !mark.open->empty() && mark.open->front() == "PP:step";
      if (in_step && setting.seen != nullptr) ++setting.seen->suggestions_in_steps;
      return choose(arguments...);
    };
    if (setting.tamper) setting.tamper(table);
  }};
}

Expected<RunResult> run_on(FakeGpu& gpu, const Setting& setting) {
  const test::StepMark mark;
  const auto make = [&](const GpuApi& api) {
    return test::fake_transformer(gpu, api, config_of(setting.arithmetic), watched(gpu, setting, mark));
  };
  test::FakeRunOptions options{.cuda = {.graphs = setting.graphs, .host_threads = false}, .steps = 2};
  options.processes = setting.processes;
  options.algorithms = setting.algorithms;
  options.tamper = [&](GpuApi& api) {
    mark.watch(api);
    if (setting.processes != nullptr) api.clock.now = host_clock().now;
  };
  return test::run_kernels_on_fake(gpu, program_of(setting.schedule), make, options);
}

Expected<RunResult> run_alone(const Setting& setting) {
  FakeGpu gpu({.devices = 2});
  auto result = run_on(gpu, setting);
  if (result) {
    EXPECT_TRUE(gpu.faults().empty()) << faults_of(gpu);
  }
  return result;
}

TEST(PinnedAlgorithms, AreTimedOnceBeforeTheFirstStepAndTakenByAllRanks) {
  Seen first;
  Seen untimed;
  Seen without;
  Algorithms algorithms;
  ASSERT_TRUE(run_alone({.seen = &without}));
  ASSERT_TRUE(run_alone({.algorithms = &algorithms, .seen = &first}));
  ASSERT_TRUE(run_alone({.algorithms = &algorithms, .seen = &untimed}));
  EXPECT_EQ(without.algorithms, std::set{kFirst});
  EXPECT_EQ(first.algorithms, std::set{kSecond});
  EXPECT_EQ(untimed.algorithms, std::set{kSecond});
  // Three algorithms, four times each, ten products at once; and none where all are known.
  const int timed = static_cast<int>(algorithms.products.size()) * 3 * 4 * 10;
  EXPECT_GT(timed, 0);
  EXPECT_EQ(first.before_steps, without.before_steps + timed);
  EXPECT_EQ(untimed.before_steps, without.before_steps);
  for (const Seen* seen : {&first, &untimed}) {
    EXPECT_EQ(seen->in_steps, without.in_steps);
    EXPECT_EQ(seen->suggestions_in_steps, 0);
  }
  EXPECT_EQ(algorithms.device, "strict fake");
  EXPECT_EQ(algorithms.library, "cuBLASLt 0.0.0");
  for (const PinnedAlgorithm& one : algorithms.products) {
    EXPECT_EQ(one.multiprocessors, 132);
    EXPECT_EQ(one.ns, 100);
    EXPECT_EQ(one.first_ns, 200);
  }
}

TEST(PinnedAlgorithms, HaveTheSameBitsInEveryScheduleAndMode) {
  Algorithms algorithms;
  const RunResult one = run_alone({.algorithms = &algorithms}).value();
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) {
    for (const bool graphs : {false, true}) {
      const RunResult other =
          run_alone({.algorithms = &algorithms, .fastest = kThird, .schedule = schedule, .graphs = graphs})
              .value();
      EXPECT_EQ(other.gradients, one.gradients) << schedule << graphs;
      EXPECT_EQ(other.losses, one.losses);
    }
  }
  EXPECT_NE(run_alone({}).value().gradients, one.gradients) << "another algorithm rounds otherwise";
}

TEST(PinnedAlgorithms, StayTheFirstOnesWhereNoneIsFaster) {
  Seen seen;
  Algorithms algorithms;
  ASSERT_TRUE(run_alone({.algorithms = &algorithms, .fastest = kFirst, .seen = &seen}));
  EXPECT_EQ(seen.algorithms, std::set{kFirst});
}

TEST(PinnedAlgorithms, AreThereForEveryArithmeticOfALibrary) {
  for (const Arithmetic arithmetic : {Arithmetic::bf16, Arithmetic::fp8}) {
    Seen seen;
    Algorithms algorithms;
    ASSERT_TRUE(run_alone({.algorithms = &algorithms, .arithmetic = arithmetic, .seen = &seen}));
    EXPECT_EQ(seen.algorithms, std::set{kSecond});
  }
  Algorithms none;
  ASSERT_TRUE(run_alone({.algorithms = &none, .arithmetic = Arithmetic::integer_exact}));
  EXPECT_TRUE(none.products.empty());
}

/// Process 1 would find another one faster, and its file has others.
TEST(PinnedAlgorithms, AreThoseOfProcess0OnAllProcesses) {
  const auto ends = in_process_bootstraps(2).value();
  FakeGpu gpu({.devices = 2, .jumps = false});
  Algorithms algorithms[2];
  Seen seen[2];
  std::vector<Expected<RunResult>> results(2);
  {
    std::vector<std::jthread> threads;
    for (std::size_t p = 0; p < 2; ++p) {
      threads.emplace_back([&, p] {
        results[p] = run_on(gpu, {.algorithms = &algorithms[p],
                                  .fastest = p == 0 ? kSecond : kThird,
                                  .processes = ends[p].get(),
                                  .seen = &seen[p]});
      });
    }
  }
  for (const auto& result : results) ASSERT_TRUE(result) << to_string(result.error());
  EXPECT_EQ(algorithms[1], algorithms[0]);
  EXPECT_FALSE(algorithms[0].products.empty());
  for (const Seen& one : seen) EXPECT_EQ(one.algorithms, std::set{kSecond});
}

TEST(PinnedAlgorithms, AreOfAllProcessesOrOfNone) {
  const auto ends = in_process_bootstraps(2).value();
  FakeGpu gpu({.devices = 2, .jumps = false});
  Algorithms algorithms;
  std::vector<Expected<RunResult>> results(2);
  {
    std::vector<std::jthread> threads;
    for (std::size_t p = 0; p < 2; ++p) {
      threads.emplace_back([&, p] {
        results[p] = run_on(gpu, {.algorithms = p == 0 ? &algorithms : nullptr, .processes = ends[p].get()});
      });
    }
  }
  for (const auto& result : results) {
    ASSERT_FALSE(result);
    EXPECT_NE(result.error().message.find("other options"), std::string::npos) << result.error().message;
  }
}

std::string refusal_of(Algorithms algorithms, const std::function<void(CublasLtTable&)>& tamper = {}) {
  const auto result = run_alone({.algorithms = &algorithms, .tamper = tamper});
  return result ? "" : result.error().message;
}

TEST(PinnedAlgorithms, ThatTheLibraryDoesNotSuggestAreRefusedByName) {
  Algorithms algorithms;
  ASSERT_TRUE(run_alone({.algorithms = &algorithms}));
  const std::string name = algorithms.products.front().product;
  const std::string refusal = refusal_of(algorithms, [](CublasLtTable& table) {
    table.choose = [choose = table.choose](auto... arguments) {
      const int result = choose(arguments...);
      *std::get<9>(std::forward_as_tuple(arguments...)) = 1;
      return result;
    };
  });
  EXPECT_NE(refusal.find("rank 0: taking the pinned algorithms: the algorithm pinned for a product"),
            std::string::npos)
      << refusal;
  EXPECT_NE(refusal.find(" on 132 multiprocessors is not among the 1 that cuBLASLt 0.0.0 suggests here"),
            std::string::npos)
      << refusal;
  // The first product in the order of plans, which is that of the file.
  EXPECT_NE(refusal.find("take \"" + name + "\" out of the file"), std::string::npos) << refusal;
}

TEST(PinnedAlgorithms, OfAnotherDeviceOrLibraryAreRefused) {
  Algorithms algorithms;
  ASSERT_TRUE(run_alone({.algorithms = &algorithms}));
  Algorithms other = algorithms;
  other.device = "another device";
  EXPECT_NE(
      refusal_of(other).find("the pinned algorithms are of cuBLASLt 0.0.0 on another device, and products "
                             "are computed by cuBLASLt 0.0.0 on strict fake"),
      std::string::npos)
      << refusal_of(other);
  EXPECT_NE(
      refusal_of(algorithms, [](CublasLtTable& table) { table.version = [] { return std::size_t{130200}; }; })
          .find("computed by cuBLASLt 13.2.0 on strict fake"),
      std::string::npos);
}

/// Ranks that have fewer multiprocessors than those of process 0 would need algorithms of their own.
TEST(PinnedAlgorithms, OfAnotherNumberOfMultiprocessorsAreNotTaken) {
  Algorithms algorithms;
  ASSERT_TRUE(run_alone({.algorithms = &algorithms}));
  const std::size_t of_whole = algorithms.products.size();
  FakeGpu gpu({.devices = 1});
  const auto make = [&](const GpuApi& api) {
    return test::fake_transformer(gpu, api, config_of(Arithmetic::float32));
  };
  test::FakeRunOptions options{
      .cuda = {.transport = CudaTransport::copy, .ranks_per_device = 2, .host_threads = false}};
  options.algorithms = &algorithms;
  ASSERT_TRUE(test::run_kernels_on_fake(gpu, program_of("1f1b"), make, options));
  EXPECT_EQ(algorithms.products.size(), 2 * of_whole) << "each once for a part of the device";
  EXPECT_LT(algorithms.products.back().multiprocessors, 132);
}

}  // namespace
}  // namespace ppsim::pinned_algorithms_test
