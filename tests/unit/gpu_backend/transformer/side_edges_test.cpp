// Side edges of the transformer: the first stage numbers the microbatch, and the last one draws its targets
// by the number.

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "ppsim/core/ir/padding.hpp"
#include "ppsim/gpu_backend/executor/backend_error.hpp"
#include "support/host_gpu_model.hpp"
#include "support/transformer_run.hpp"

namespace ppsim {

using namespace gpu_backend;
namespace {

using test::host_gpu_model;
using test::tiny_transformer;
using test::TransformerRun;

constexpr StageEdge kSide{StageId(0), StageId(2)};

PipelineSpec numbered() {
  PipelineSpec spec{.ranks = 3, .stages = 3, .microbatches = 3};
  spec.side_edges = {kSide};
  return spec;
}

using MakeModel = std::function<std::unique_ptr<CpuStageModel>(const TransformerConfig&)>;
class SideEdges : public testing::TestWithParam<MakeModel> {
 protected:
  [[nodiscard]] TransformerRun run() const {
    return {GetParam()(tiny_transformer(Arithmetic::integer_exact)), Pipeline::make(numbered()).value()};
  }
  static std::int64_t number_of(TransformerRun& run, int mb) {
    std::int64_t number = -1;
    std::memcpy(&number, run.side(kSide, mb).data(), sizeof number);
    return number;
  }
  static void write(TransformerRun& run, int mb, std::int64_t number) {
    std::memcpy(run.side(kSide, mb).data(), &number, sizeof number);
  }
  /// Gradients of a microbatch whose last stage is told this number; negative: its own.
  static std::vector<std::byte> gradients(TransformerRun run, int mb, int told) {
    run.compute(OpKind::forward, 0, mb);
    run.compute(OpKind::forward, 1, mb);
    if (told >= 0) write(run, mb, told);
    run.compute(OpKind::forward, 2, mb);
    run.backward(mb);
    return run.gradients();
  }
};
INSTANTIATE_TEST_SUITE_P(
    Models, SideEdges,
    testing::Values([](const TransformerConfig& c) { return make_transformer(c).value(); },
                    [](const TransformerConfig& c) { return host_gpu_model(c); }),
    [](const auto& one) { return one.index == 0 ? "cpu" : "gpu"; });

TEST_P(SideEdges, HaveRoomForANumberAtBothEnds) {
  const TransformerRun one = run();
  EXPECT_EQ(one.sizes()({TensorKind::boundary_output, 0, 2}), 64);
  EXPECT_EQ(one.sizes()({TensorKind::boundary_input, 2, 0}), 64);
}

TEST_P(SideEdges, BringTheNumberOfTheMicrobatch) {
  TransformerRun one = run();
  for (const int mb : {2, 0, 1}) {
    one.forward(mb);
    EXPECT_EQ(number_of(one, mb), mb);
  }
}

TEST_P(SideEdges, DecideWhichTargetsAreDrawn) {
  EXPECT_EQ(gradients(run(), 1, 1), gradients(run(), 1, -1));
  EXPECT_NE(gradients(run(), 1, 2), gradients(run(), 1, -1));
  TransformerRun plain(GetParam()(tiny_transformer(Arithmetic::integer_exact)), test::chain_of_stages(3, 3));
  plain.run(1);
  EXPECT_EQ(gradients(run(), 1, -1), plain.gradients());
}

TEST(SideEdgesOnACpu, ANumberOfNoMicrobatchIsAnError) {
  TransformerRun one(tiny_transformer(Arithmetic::integer_exact), Pipeline::make(numbered()).value());
  one.compute(OpKind::forward, 0, 0);
  one.compute(OpKind::forward, 1, 0);
  for (const std::int64_t wrong : {std::int64_t{-1}, std::int64_t{3}, std::int64_t{1} << 40}) {
    std::memcpy(one.side(kSide, 0).data(), &wrong, sizeof wrong);
    EXPECT_THROW(one.compute(OpKind::forward, 2, 0), BackendError) << wrong;
  }
}

TEST(SideEdgesOnAGpu, AreRefusedBesidePadding) {
  PipelineSpec spec = numbered();
  spec.update = IdVector<MicrobatchId, int>(std::vector<int>{0, -1, 0});
  const auto model = host_gpu_model(tiny_transformer(Arithmetic::integer_exact));
  const auto refused = model->check(Pipeline::make(spec).value());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().place.found, "a side edge and padding");
}

}  // namespace
}  // namespace ppsim
