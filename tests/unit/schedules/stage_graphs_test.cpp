#include <gtest/gtest.h>

#include "support/closed_forms.hpp"
#include "support/finished_run.hpp"
#include "support/lowered.hpp"
#include "support/row_text.hpp"

// Stage graphs that are no chain.

namespace ppsim {
namespace {

using test::generated;

std::string edges_of(std::string_view name, const ScheduleParameters& parameters) {
  const Schedule schedule = generated(name, parameters);
  std::string text;
  for (const StageEdge& edge : schedule.pipeline().spec().edges) {
    text += std::to_string(edge.from.value()) + ">" + std::to_string(edge.to.value()) + " ";
  }
  return text;
}

ScheduleParameters with_graph(int ranks, const std::string& graph) {
  return {.ranks = ranks, .microbatches = 4, .settings = {{"graph", graph}}};
}

// Raffel et al., T5 (JMLR 2020): every decoder block attends to the output of the last encoder block.
TEST(StageGraphs, TheDecoderOfT5AttendsToTheEncodersOutput) {
  ScheduleParameters t5 = with_graph(6, "encoder-decoder");
  EXPECT_EQ(edges_of("gpipe", t5), "0>1 1>2 2>3 2>4 2>5 3>4 4>5 ");
  t5.settings["encoder"] = "1";
  EXPECT_EQ(edges_of("1f1b", t5), "0>1 0>2 0>3 0>4 0>5 1>2 2>3 3>4 4>5 ");
}

// Ronneberger et al., U-Net (MICCAI 2015), figure 1: a level of the contracting path feeds the level of the
// expanding path that has its resolution.
TEST(StageGraphs, TheLevelsOfAUNetFeedTheirMirrorImages) {
  EXPECT_EQ(edges_of("1f1b", with_graph(6, "skip")), "0>1 0>5 1>2 1>4 2>3 3>4 4>5 ");
  EXPECT_EQ(edges_of("1f1b", with_graph(5, "skip")), "0>1 0>4 1>2 1>3 2>3 3>4 ");
}

TEST(StageGraphs, ChunksAreStagesOfTheGraph) {
  ScheduleParameters u_net = with_graph(2, "skip");
  u_net.chunks = 3;
  EXPECT_EQ(edges_of("interleaved-1f1b", u_net), "0>1 0>5 1>2 1>4 2>3 3>4 4>5 ");
  EXPECT_EQ(edges_of("looped-bfs", u_net), edges_of("interleaved-1f1b", u_net));
}

/// JaxPP 0.9.2 sends it to the last rank, which looks up its labels by it.
TEST(StageGraphs, TheIndexGoesFromTheFirstStageToTheLastWithoutGradient) {
  EXPECT_EQ(edges_of("1f1b", with_graph(4, "index")), "0>1 1>2 2>3 ");
  EXPECT_EQ(generated("1f1b", with_graph(4, "index")).pipeline().spec().side_edges,
            (std::vector<StageEdge>{{StageId(0), StageId(3)}}));
  EXPECT_TRUE(generated("1f1b", with_graph(2, "index")).pipeline().is_chain());
}

TEST(StageGraphs, TheOrderIsThatOfTheChain) {
  for (const char* name : {"gpipe", "1f1b", "eager-1f1b", "interleaved-1f1b", "kimi-k2", "looped-bfs"}) {
    const Schedule chain = generated(name, with_graph(4, "chain"));
    for (const char* graph : {"encoder-decoder", "skip", "index"}) {
      const Schedule other = generated(name, with_graph(4, graph));
      for (int r = 0; r < 4; ++r) EXPECT_EQ(test::row_text(other, r), test::row_text(chain, r)) << name;
    }
  }
}

std::string graph_refusal(std::string_view name, const ScheduleParameters& parameters) {
  const auto schedule = generate(name, parameters);
  return schedule ? "" : schedule.error().message;
}

TEST(StageGraphs, SaysWhichGraphsThereAre) {
  EXPECT_EQ(graph_refusal("1f1b", with_graph(4, "tree")),
            "1f1b: graph must be one of chain, encoder-decoder, skip, index, found \"tree\"");
  EXPECT_EQ(graph_refusal("1f1b", with_graph(1, "encoder-decoder")),
            "1f1b: graph=encoder-decoder needs two stages or more, found 1");
  EXPECT_EQ(graph_refusal("1f1b", {.ranks = 4, .settings = {{"encoder", "2"}}}),
            "1f1b: encoder is for graph=encoder-decoder alone");
  ScheduleParameters parameters = with_graph(4, "encoder-decoder");
  parameters.settings["encoder"] = "4";
  EXPECT_EQ(graph_refusal("gpipe", parameters),
            "gpipe: encoder must be a whole number in [1, 3], found \"4\"");
}

/// Peak bytes of the last of four ranks under 1F1B where each tensor that a stage receives takes a byte.
Bytes peak_of_last_rank(const std::string& graph, Bytes received) {
  const CostTable costs = test::cost_table({});
  SizeTable sizes;
  sizes.set({.kind = TensorKind::boundary_input, .subject = 3}, received);
  ScheduleParameters parameters = with_graph(4, graph);
  parameters.microbatches = 8;
  const Program program = test::lowered(generated("1f1b", parameters), {.order = IssueOrder::timed}, &costs);
  return test::FinishedRun(program, costs, sizes).metrics().ranks[RankId(3)].peak_bytes;
}

// docs/ir.md, section 5: the input of a stage is there from the first receive, which is posted when the one
// before it is over, to B. By the chain the next microbatch arrives while one is computed, and a receive is
// posted; beside the chain stage 0 sends the four that it runs ahead, and a receive is posted.
TEST(StageGraphs, SkippedTensorsAreCountedWhereTheyWait) {
  EXPECT_EQ(peak_of_last_rank("chain", 1), 3);
  EXPECT_EQ(peak_of_last_rank("skip", 2), 5 * 2);
}

}  // namespace
}  // namespace ppsim
