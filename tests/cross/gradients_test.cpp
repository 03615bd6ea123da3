// What a schedule computes must not depend on the schedule.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <sstream>

#include "ppsim/core/lowering.hpp"
#include "ppsim/gpu_backend/reference.hpp"
#include "ppsim/gpu_backend/transformer.hpp"
#include "ppsim/planner/verified_run.hpp"
#include "ppsim/schedules/registry.hpp"
#include "ppsim/verifier/verify.hpp"
#include "support/small_transformer.hpp"

namespace ppsim {
namespace {

struct Shape {
  int ranks;
  int microbatches;
  int chunks;
};
constexpr Shape kShapes[] = {{1, 2, 1}, {2, 5, 1}, {3, 6, 1}, {4, 8, 1}, {2, 4, 2},
                             {3, 6, 3}, {4, 9, 2}, {4, 8, 2}, {2, 4, 4}};

std::unique_ptr<StageModel> transformer(Arithmetic arithmetic) {
  return make_transformer(test::small_transformer(5, arithmetic)).value();
}

/// What the model computes: chains of stages, whole sequences.
bool computable(const Pipeline& pipeline) { return pipeline.is_chain() && pipeline.slices() == 1; }

/// Whether no gradient is summed across ranks, where the order of the microbatches is not all.
bool sums_on_one_rank(const Pipeline& pipeline) {
  const auto& blocks = pipeline.spec().blocks;
  return std::all_of(blocks.begin(), blocks.end(),
                     [](const ParameterBlock& block) { return block.stages.size() == 1; });
}

/// Every schedule of the registry that has the shape.
void for_each_program(const std::function<void(const std::string&, const Program&)>& visit) {
  for (const ScheduleInfo& info : schedules()) {
    for (const Shape& shape : kShapes) {
      const ScheduleParameters parameters{
          .ranks = shape.ranks, .microbatches = shape.microbatches, .chunks = shape.chunks};
      const auto schedule = generate(info.name, parameters);
      if (info.forward_only || !schedule || !computable(schedule->pipeline())) continue;
      std::ostringstream name;
      name << info.name << " with " << parameters;
      visit(name.str(), lower(*schedule, {}).value());
    }
  }
}

VerifiedRun run(const Program& program, const StageModel& model) {
  VerifiedRunOptions options;
  options.run.poison = true;
  options.compare = true;
  auto result = verify_then_run(program, model, options);
  if (!result) throw std::runtime_error(to_string(result.error()));
  return *std::move(result);
}

TEST(Gradients, AreThoseOfTheUnpipelinedModelInExactIntegers) {
  const auto model = transformer(Arithmetic::integer_exact);
  int programs = 0;
  for_each_program([&](const std::string& name, const Program& program) {
    ++programs;
    const VerifiedRun result = run(program, *model);
    EXPECT_EQ(result.max_abs_difference, 0.0) << name;
    for (std::size_t r = 0; r < result.proved_bytes.size(); ++r) {
      const RankId rank(static_cast<std::int32_t>(r));
      EXPECT_LE(result.run.high_water_bytes[rank], result.proved_bytes[r]) << name;
      EXPECT_LE(result.proved_bytes[r], result.run.pool_bytes[rank]) << name;
    }
  });
  EXPECT_GE(programs, 20);
}

TEST(Gradients, AreBitEqualInFloat32WhereTheyAccumulateInAscendingOrder) {
  const auto model = transformer(Arithmetic::float32);
  int compared = 0;
  for_each_program([&](const std::string& name, const Program& program) {
    if (!sums_on_one_rank(program.pipeline())) return;
    VerifyOptions ascending;
    ascending.properties = {Property::ascending_accumulation};
    if (!verify(program, ascending).all_proved()) return;
    ++compared;
    // All are equal to one reference per shape, and so to each other.
    EXPECT_EQ(run(program, *model).max_abs_difference, 0.0) << name;
  });
  EXPECT_GE(compared, 20);
}

}  // namespace
}  // namespace ppsim
