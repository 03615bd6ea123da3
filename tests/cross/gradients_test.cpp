// Gradients must not depend on the schedule.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "ppsim/core/ir/padding.hpp"
#include "ppsim/gpu_backend/transformer/transformer.hpp"
#include "ppsim/planner/verified_run.hpp"
#include "ppsim/verifier/verify.hpp"
#include "support/registered_programs.hpp"
#include "support/small_transformer.hpp"

namespace ppsim::gradients_test {
namespace {

std::unique_ptr<CpuStageModel> transformer(Arithmetic arithmetic) {
  return make_transformer(test::small_transformer(5, arithmetic)).value();
}

/// Whether nothing is summed across ranks, where the order of the microbatches is not all.
bool sums_on_one_rank(const Pipeline& pipeline) {
  const auto& blocks = pipeline.spec().blocks;
  const auto& collectives = pipeline.spec().collectives;
  return std::all_of(blocks.begin(), blocks.end(),
                     [](const ParameterBlock& block) { return block.stages.size() == 1; }) &&
         std::none_of(collectives.begin(), collectives.end(),
                      [](const Collective& one) { return one.per_microbatch(); });
}

VerifiedRun run(const Program& program, const CpuStageModel& model) {
  VerifiedRunOptions options;
  options.run.poison = true;
  options.compare = true;
  auto result = verify_then_run(program, model, options);
  if (!result) throw std::runtime_error(to_string(result.error()));
  return *std::move(result);
}

TEST(Gradients, AreThoseOfTheUnpipelinedModelInExactIntegers) {
  const auto model = transformer(Arithmetic::integer_exact);
  const auto check = [&](const std::string& name, const Program& program) {
    const VerifiedRun result = run(program, *model);
    EXPECT_EQ(result.max_abs_difference, 0.0) << name;
    for (std::size_t r = 0; r < result.proved_bytes.size(); ++r) {
      const RankId rank(static_cast<std::int32_t>(r));
      EXPECT_LE(result.run.high_water_bytes[rank], result.proved_bytes[r]) << name;
      EXPECT_LE(result.proved_bytes[r], result.run.pool_bytes[rank]) << name;
    }
  };
  const auto found = test::for_each_registered(*model, test::whole_and_sliced_shapes(), {}, check);
  EXPECT_EQ(test::surprises(found, test::not_computed()), "");
}

/// Schedules that in one shape or another do not add up in ascending order, or sum over ranks: elsewhere
/// floating point has the same bits.
TEST(Gradients, AreBitEqualInFloat32WhereTheyAccumulateInAscendingOrder) {
  const auto model = transformer(Arithmetic::float32);
  VerifyOptions ascending;
  ascending.properties = {Property::ascending_accumulation};
  std::set<std::string> otherwise;
  std::map<int, std::string> hashes;  // by microbatches: however the model is cut
  const auto check = [&](const std::string& name, const Program& program) {
    if (!sums_on_one_rank(program.pipeline()) || !verify(program, ascending).all_proved()) {
      otherwise.insert(name.substr(0, name.find(' ')));
      return;
    }
    const VerifiedRun result = run(program, *model);
    EXPECT_EQ(result.max_abs_difference, 0.0) << name;
    if (program.pipeline().asynchronous()) return;  // its gradients are of several updates
    std::string& hash = hashes[batch_microbatches(program.pipeline())];
    if (hash.empty()) hash = result.gradients_hash;
    EXPECT_EQ(result.gradients_hash, hash) << name;
  };
  const auto found = test::for_each_registered(*model, test::small_shapes(), {}, check);
  EXPECT_EQ(test::surprises(found, test::not_computed()), "");
  EXPECT_EQ(otherwise, (std::set<std::string>{"bitpipe", "chimera", "dualpipe", "looped-bfs", "spmd-circular",
                                              "spmd-gpipe", "vocab-1", "vocab-2"}));
}

}  // namespace
}  // namespace ppsim::gradients_test
