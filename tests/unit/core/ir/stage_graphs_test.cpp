// Edges without gradient, and outputs that several stages of a rank read.

#include <gtest/gtest.h>

#include <algorithm>
#include <variant>

#include "ppsim/core/execution/analyzed_program.hpp"
#include "ppsim/core/execution/facts.hpp"
#include "ppsim/core/io/json.hpp"
#include "ppsim/core/io/text.hpp"
#include "ppsim/core/ir/hash.hpp"
#include "ppsim/core/ir/replicas.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/core/memory/tensors.hpp"
#include "ppsim/schedules/registry.hpp"

namespace ppsim {
namespace {

StageEdge edge(int from, int to) { return {StageId(from), StageId(to)}; }

Program graph_program(const std::string& graph, const ScheduleParameters& shape) {
  ScheduleParameters parameters = shape;
  parameters.settings = {{"graph", graph}};
  const char* name = shape.chunks > 1 ? "interleaved-1f1b" : "1f1b";
  return lower(generate(name, parameters).value(), {}).value();
}

/// The transfers of a Program as text, ascending.
std::vector<std::string> transfers(const Program& program, OpKind kind) {
  std::vector<std::string> found;
  for (const Action& action : program.all_actions()) {
    if (action.kind == kind) found.push_back(action_text(program.pipeline(), action));
  }
  std::sort(found.begin(), found.end());
  return found;
}

TEST(SideEdges, TakeAnOutputForwardAndNoGradientBack) {
  const Program program = graph_program("index", {.ranks = 3, .microbatches = 2});
  EXPECT_EQ(
      transfers(program, OpKind::send_forward),
      (std::vector<std::string>{"0SEND_F0", "0SEND_F0>2", "0SEND_F1", "0SEND_F1>2", "1SEND_F0", "1SEND_F1"}));
  EXPECT_EQ(
      transfers(program, OpKind::recv_forward),
      (std::vector<std::string>{"1RECV_F0", "1RECV_F1", "2RECV_F0", "2RECV_F0<0", "2RECV_F1", "2RECV_F1<0"}));
  EXPECT_EQ(transfers(program, OpKind::send_backward).size(), 4U);
  const AnalyzedProgram analyzed(program, TransportCapabilities{});
  EXPECT_TRUE(analyzed.finishes());
}

TEST(SideEdges, HaveTensorsWithSizesOfTheirOwn) {
  const Program program = graph_program("index", {.ranks = 3, .microbatches = 1});
  SizeTable sizes;
  sizes.set({.kind = TensorKind::boundary_output}, 1000);
  sizes.set({.kind = TensorKind::boundary_input}, 1000);
  sizes.set({TensorKind::boundary_output, 0, 2}, 4);
  sizes.set({TensorKind::boundary_input, 2, 0}, 4);
  const TensorTable table = tensor_table(program);
  const std::vector<Bytes> bytes = tensor_sizes(table, sizes);
  int small = 0;
  for (std::size_t t = 0; t < table.tensors.size(); ++t) {
    const Tensor& tensor = table.tensors[t];
    if (bytes[t] != 4) continue;
    ++small;
    const bool at_source = tensor.rank == RankId(0);
    EXPECT_EQ(tensor.size_class.kind, at_source ? TensorKind::boundary_output : TensorKind::boundary_input);
    // From F to SEND_F; from RECV_F over F to B.
    EXPECT_EQ(table.users_of(tensor).size(), at_source ? 2U : 3U);
  }
  EXPECT_EQ(small, 2);
  for (const Action& action : program.all_actions()) {
    if (action.kind != OpKind::send_forward || action.subject != 0) continue;
    EXPECT_EQ(sizes(payload_class(action)), action.peer == 2 ? 4 : 1000);
  }
}

TEST(SideEdges, AreKeptByFilesHashesAndReplicas) {
  const Program program = graph_program("index", {.ranks = 3, .microbatches = 2});
  const Program read = std::get<Program>(ir_from_json(to_json(program), "file").value());
  EXPECT_EQ(read, program);
  EXPECT_EQ(program_hash(read), program_hash(program));
  EXPECT_NE(program_hash(program), program_hash(graph_program("chain", {.ranks = 3, .microbatches = 2})));
  const Schedule one =
      generate("gpipe", {.ranks = 3, .microbatches = 2, .settings = {{"graph", "index"}}}).value();
  EXPECT_EQ(replicated(one, 2).value().pipeline().spec().side_edges,
            (std::vector<StageEdge>{edge(0, 2), edge(3, 5)}));
}

TEST(SideEdges, StandBesideOthersAndMakeNoCycle) {
  PipelineSpec spec{.ranks = 3, .stages = 3};
  spec.side_edges = {edge(0, 1)};
  EXPECT_EQ(Pipeline::make(spec).error().message, "side edge 0 -> 1 is an edge of the stage graph already");
  spec.side_edges = {edge(0, 2), edge(0, 2)};
  EXPECT_EQ(Pipeline::make(spec).error().message, "edge 0 -> 2 is given twice");
  spec.side_edges = {edge(2, 0)};
  EXPECT_EQ(Pipeline::make(spec).error().message, "the stage graph has a cycle");
  spec.side_edges = {edge(0, 3)};
  EXPECT_EQ(Pipeline::make(spec).error().message, "edge 0 -> 3 names a stage outside [0, 3)");
  spec.side_edges = {edge(0, 2)};
  EXPECT_FALSE(Pipeline::make(spec).value().is_chain());
}

/// Stage 0 feeds stages 1, 2 and 3, of which 1 and 3 are on the other rank.
TEST(SharedOutputs, AreSentOnceToARankAndGradientsComeBackFromEach) {
  ScheduleParameters shape{.ranks = 2, .microbatches = 2, .chunks = 2};
  shape.settings = {{"graph", "encoder-decoder"}, {"encoder", "1"}};
  const Program program = lower(generate("interleaved-1f1b", shape).value(), {}).value();
  const auto sends = transfers(program, OpKind::send_forward);
  EXPECT_EQ(sends, (std::vector<std::string>{"0SEND_F0>1", "0SEND_F1>1", "1SEND_F0", "1SEND_F1", "2SEND_F0",
                                             "2SEND_F1"}));
  const auto back = transfers(program, OpKind::send_backward);
  EXPECT_EQ(std::count(back.begin(), back.end(), "3SEND_B0>0"), 1);
  EXPECT_EQ(std::count(back.begin(), back.end(), "1SEND_B0"), 1);
  const TensorTable table = tensor_table(program);
  const auto received = std::count_if(table.tensors.begin(), table.tensors.end(), [](const Tensor& tensor) {
    return tensor.rank == RankId(1) && tensor.size_class.kind == TensorKind::boundary_input;
  });
  EXPECT_EQ(received, 4);  // of stage 1 and, for what stage 2 sends, of stage 3
  const Action again = make_transfer(OpKind::send_forward, 0, 0, 3);
  EXPECT_FALSE(belongs_on(program.pipeline(), again, RankId(0)));
}

/// However receives are placed, the first reader comes behind them, whichever stage it is.
TEST(SharedOutputs, ArriveBeforeTheirFirstReader) {
  ScheduleParameters shape{.ranks = 2, .microbatches = 4, .chunks = 2};
  for (const char* graph : {"encoder-decoder", "skip", "index"}) {
    shape.settings = {{"graph", graph}};
    for (const char* name : {"interleaved-1f1b", "looped-bfs"}) {
      for (const IssueOrder order : {IssueOrder::timed, IssueOrder::global, IssueOrder::early}) {
        const auto program = lower(generate(name, shape).value(), {.order = order});
        ASSERT_TRUE(program) << to_string(program.error());
        EXPECT_TRUE(AnalyzedProgram(*program, TransportCapabilities{}).finishes()) << name << ' ' << graph;
      }
    }
  }
}

}  // namespace
}  // namespace ppsim
