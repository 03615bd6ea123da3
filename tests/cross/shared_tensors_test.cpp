// Tied weights and outputs that several stages read, run under every schedule: gradients are those of the
// unpipelined model, bit by bit.

#include <gtest/gtest.h>

#include <set>

#include "ppsim/core/ir/padding.hpp"
#include "ppsim/core/ir/replicas.hpp"
#include "ppsim/core/ir/tied_ends.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/gpu_backend/stage_model/reference.hpp"
#include "ppsim/planner/verified_run.hpp"
#include "support/compared_run.hpp"
#include "support/fake_gpu/run.hpp"
#include "support/fake_gpu/transformer.hpp"
#include "support/registered_programs.hpp"
#include "support/small_transformer.hpp"

namespace ppsim::shared_tensors_test {

using namespace gpu_backend;
namespace {

constexpr int kSteps = 2;

LoweringOptions training() {
  LoweringOptions options;
  options.load = options.reduce_grad = options.optimizer = options.clip = true;
  return options;
}

/// Schedules by name and shape.
using Schedules = std::vector<std::pair<std::string, Schedule>>;

Schedules tied_schedules(const CpuStageModel& model) {
  Schedules found;
  for (const ScheduleInfo& info : registered_schedules()) {
    if (info.forward_only) continue;
    for (const ScheduleParameters& shape : test::whole_and_sliced_shapes()) {
      const auto one = generate(info.name, shape);
      if (!one) continue;
      const auto tied = with_tied_ends(*one);
      if (tied && model.check(tied->pipeline())) found.emplace_back(info.name, *tied);
    }
  }
  return found;
}

Schedules graph_schedules(const std::vector<const char*>& graphs) {
  Schedules found;
  for (const ScheduleInfo& info : registered_schedules()) {
    for (const char* graph : graphs) {
      for (ScheduleParameters shape : test::small_shapes()) {
        shape.settings = {{"graph", graph}};
        const auto one = generate(info.name, shape);
        if (one && !info.forward_only) found.emplace_back(info.name, *one);
      }
    }
  }
  return found;
}

std::set<std::string> names_of(const Schedules& schedules) {
  std::set<std::string> names;
  for (const auto& [name, schedule] : schedules) names.insert(name);
  return names;
}

void expect_reference(const Schedules& schedules, const LoweringOptions& options) {
  const auto model = test::exact_transformer(4);
  for (const auto& [name, schedule] : schedules) {
    const VerifiedRun result = test::compared_run(lower(schedule, options).value(), *model, kSteps);
    EXPECT_EQ(result.max_abs_difference, 0.0) << name << " with " << schedule.pipeline();
    for (std::size_t r = 0; r < result.proved_bytes.size(); ++r) {
      const RankId rank(static_cast<std::int32_t>(r));
      EXPECT_LE(result.run.high_water_bytes[rank], result.proved_bytes[r]) << name;
    }
  }
}

TEST(SharedTensors, TiedWeightsHaveTheGradientsOfTheUnpipelinedModel) {
  const Schedules schedules = tied_schedules(*test::exact_transformer(4));
  const std::set<std::string> names = names_of(schedules);
  for (const ScheduleInfo& info : registered_schedules()) {
    const std::string name(info.name);
    const bool refused =
        std::set<std::string>{"forward-only", "pipedream", "pipedream-2bw", "vocab-1", "vocab-2"}.contains(
            name);
    EXPECT_NE(names.contains(name), refused) << name;
  }
  expect_reference(schedules, training());
}

/// Whether the shared weights have copies on several ranks, all of which each microbatch visits: those of two
/// directions it does not, and of a V there is one.
bool sums_each_microbatch(const Pipeline& pipeline) {
  std::set<RankId> ranks;
  for (const StageId stage : pipeline.spec().blocks.items().back().stages)
    ranks.insert(pipeline.rank_of(stage));
  std::set<RouteId> routes;
  for (int m = 0; m < pipeline.microbatches(); ++m) {
    if (!is_padding(pipeline, MicrobatchId(m))) routes.insert(pipeline.route_of(MicrobatchId(m)));
  }
  return ranks.size() > 1 && routes.size() == 1;
}

TEST(SharedTensors, SumsOfEveryMicrobatchHaveTheGradientsOfTheUnpipelinedModelToo) {
  LoweringOptions options = training();
  options.reduce_each_microbatch = true;
  Schedules schedules;
  for (const auto& [name, schedule] : tied_schedules(*test::exact_transformer(4))) {
    const bool summed = lower(schedule, options).has_value();
    EXPECT_EQ(summed, sums_each_microbatch(schedule.pipeline())) << name;
    if (summed) schedules.emplace_back(name, schedule);
  }
  EXPECT_GE(names_of(schedules).size(), 12U);
  expect_reference(schedules, options);
}

/// A sum in another order would fail here: the sums of every microbatch and the one after all of them are of
/// the same numbers.
TEST(SharedTensors, BothWaysToSumGiveTheSameGradients) {
  const auto model = test::exact_transformer(4);
  const Schedule schedule = with_tied_ends(generate("1f1b", {.ranks = 3, .microbatches = 5}).value()).value();
  const auto gradients = [&](bool each) {
    LoweringOptions options;
    options.reduce_grad = true;
    options.reduce_each_microbatch = each;
    return test::compared_run(lower(schedule, options).value(), *model, kSteps).run.gradients;
  };
  EXPECT_EQ(gradients(true), gradients(false));
}

TEST(SharedTensors, TiedWeightsOfReplicasToo) {
  Schedules schedules;
  for (const char* name : {"1f1b", "zb-v", "chimera"}) {
    const Schedule one = generate(name, {.ranks = 2, .microbatches = 4, .chunks = 2})
                             .value_or(generate(name, {.ranks = 2, .microbatches = 4}).value());
    schedules.emplace_back(name, replicated(with_tied_ends(one).value(), 2).value());
  }
  expect_reference(schedules, training());
}

TEST(SharedTensors, OutputsForSeveralStagesGiveTheGradientsOfTheUnpipelinedModel) {
  const Schedules schedules = graph_schedules({"skip", "encoder-decoder", "index"});
  EXPECT_EQ(names_of(schedules), (std::set<std::string>{"1f1b", "eager-1f1b", "gpipe", "interleaved-1f1b",
                                                        "kimi-k2", "looped-bfs"}));
  expect_reference(schedules, training());
  LoweringOptions recomputing;
  recomputing.recompute = Recompute::full;
  expect_reference(schedules, recomputing);
}

struct Mode {
  std::string name;
  CudaOptions options;
  LoweringOptions lowering;
};
class SharedTensorsOnFake : public testing::TestWithParam<Mode> {};

TEST_P(SharedTensorsOnFake, HaveTheGradientsAndLossesOfTheCpu) {
  const TransformerConfig config = test::small_transformer(4, Arithmetic::integer_exact);
  const auto model = make_transformer(config).value();
  Schedules schedules;
  if (!GetParam().lowering.reduce_each_microbatch)
    schedules = graph_schedules({"skip", "encoder-decoder", "index"});
  for (const char* name : {"1f1b", "zb-v", "interleaved-1f1b", "zb-h1", "dualpipe"}) {
    const auto one = generate(name, {.ranks = 2, .microbatches = 4, .chunks = 2});
    const auto plain = one ? one : generate(name, {.ranks = 2, .microbatches = 4});
    const Schedule tied = with_tied_ends(*plain).value();
    if (!GetParam().lowering.reduce_each_microbatch || sums_each_microbatch(tied.pipeline()))
      schedules.emplace_back(name, tied);
  }
  for (const auto& [name, schedule] : schedules) {
    const Program program = lower(schedule, GetParam().lowering).value();
    test::FakeGpu gpu(test::devices_for(program));
    const auto found = test::run_kernels_on_fake(
        gpu, program, [&](const GpuApi& api) { return test::fake_transformer(gpu, api, config); },
        {.cuda = GetParam().options, .steps = kSteps});
    ASSERT_TRUE(found) << name << ": " << to_string(found.error());
    EXPECT_TRUE(gpu.faults().empty()) << name << ": " << gpu.faults().front();
    RunOptions on_cpu;
    on_cpu.unverified = true;
    on_cpu.steps = kSteps;
    const RunResult expected = execute(program, *model, on_cpu).value();
    EXPECT_EQ(found->gradients, expected.gradients) << name;
    EXPECT_EQ(found->losses, expected.losses) << name;
  }
}

LoweringOptions each_microbatch() {
  LoweringOptions options = training();
  options.reduce_each_microbatch = true;
  return options;
}

INSTANTIATE_TEST_SUITE_P(
    Modes, SharedTensorsOnFake,
    testing::Values(Mode{"streamed", {.host_threads = false}, training()},
                    Mode{"copy_engines_in_graphs",
                         {.transport = CudaTransport::copy, .graphs = true, .host_threads = false},
                         training()},
                    Mode{"each_microbatch", {.host_threads = false}, each_microbatch()},
                    Mode{"each_microbatch_in_graphs",
                         {.transport = CudaTransport::copy, .graphs = true, .host_threads = false},
                         each_microbatch()}),
    [](const auto& one) { return one.param.name; });

/// Untied, the head starts with other weights, so that the runs differ.
TEST(SharedTensors, TiedWeightsAreAnotherModel) {
  const auto model = test::exact_transformer(4);
  const Schedule one = generate("1f1b", {.ranks = 2, .microbatches = 4}).value();
  const auto losses = [&](const Schedule& schedule) {
    return test::compared_run(lower(schedule, training()).value(), *model).run.losses;
  };
  EXPECT_NE(losses(one), losses(with_tied_ends(one).value()));
}

}  // namespace
}  // namespace ppsim::shared_tensors_test
