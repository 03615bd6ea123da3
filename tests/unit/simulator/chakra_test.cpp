#include "ppsim/simulator/writers/chakra.hpp"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>

#include "ppsim/core/io/text.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/schedules/registry.hpp"
#include "support/hand_program.hpp"

// Traces are decoded here by the wire format of protocol buffers and the field numbers of Chakra's schema,
// without the code that wrote them.

namespace ppsim {
namespace {

using test::HandProgram;

/// One field of a message: a number, or bytes.
struct Field {
  std::uint64_t tag = 0;
  std::uint64_t number = 0;
  std::string_view bytes;
};

std::uint64_t take_varint(std::string_view& text) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; !text.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(text.front());
    text.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) break;
  }
  return value;
}

std::string_view take_bytes(std::string_view& text) {
  const std::size_t length = take_varint(text);
  const std::string_view bytes = text.substr(0, length);
  text.remove_prefix(length);
  return bytes;
}

std::vector<Field> fields_of(std::string_view message) {
  std::vector<Field> fields;
  while (!message.empty()) {
    const std::uint64_t key = take_varint(message);
    Field field{.tag = key >> 3};
    if ((key & 7) == 0) {
      field.number = take_varint(message);
    } else {
      EXPECT_EQ(key & 7, 2U) << "numbers and bytes alone";
      field.bytes = take_bytes(message);
    }
    fields.push_back(field);
  }
  return fields;
}

struct Node {
  std::uint64_t id = 0, type = 0, micros = 0;
  std::string name;
  std::set<std::uint64_t> control, data;
  std::map<std::string, std::string> attributes;
};

std::set<std::uint64_t> packed(std::string_view bytes) {
  std::set<std::uint64_t> values;
  while (!bytes.empty()) values.insert(take_varint(bytes));
  return values;
}

void add_attribute(std::string_view message, Node& node) {
  std::string name;
  for (const Field& field : fields_of(message)) {
    if (field.tag == 1) {
      name = field.bytes;
    } else {
      node.attributes[name] = field.tag == 29
                                  ? std::string(field.bytes)
                                  : std::to_string(field.number) + ":" + std::to_string(field.tag);
    }
  }
}

Node node_of(std::string_view message) {
  Node node;
  for (const Field& field : fields_of(message)) {
    if (field.tag == 1) node.id = field.number;
    if (field.tag == 2) node.name = field.bytes;
    if (field.tag == 3) node.type = field.number;
    if (field.tag == 4) node.control = packed(field.bytes);
    if (field.tag == 5) node.data = packed(field.bytes);
    if (field.tag == 7) node.micros = field.number;
    if (field.tag == 10) add_attribute(field.bytes, node);
  }
  return node;
}

std::vector<Node> nodes_of(const ChakraInput& input, int rank) {
  std::ostringstream out;
  write_chakra(out, input, RankId(rank));
  const std::string trace = out.str();
  std::string_view text = trace;
  EXPECT_EQ(fields_of(take_bytes(text))[0].bytes, "0.0.4");
  std::vector<Node> nodes;
  while (!text.empty()) nodes.push_back(node_of(take_bytes(text)));
  return nodes;
}

SizeTable sizes() {
  SizeTable table;
  table.set({.kind = TensorKind::boundary_output}, 1000);
  table.set({.kind = TensorKind::incoming_gradient}, 3'000'000'000);
  table.set({.kind = TensorKind::gradients}, 77);
  return table;
}

/// The instruction of each node of a rank.
std::vector<InstructionId> instructions_of(const Program& program, RankId rank) {
  std::vector<InstructionId> owners;
  for (InstructionId id = program.first(rank); id < program.last(rank); id = next(id)) {
    const bool is_group = program.instruction(id).form == InstructionForm::group;
    owners.insert(owners.end(), is_group ? program.actions(id).size() : 1, id);
  }
  return owners;
}

/// For a message, the one before it in the same group on its channel; nothing for the first, or for a node
/// that is no message.
std::optional<std::uint64_t> message_before(const std::vector<Node>& nodes,
                                            const std::vector<InstructionId>& owners, std::size_t node) {
  if (nodes[node].type != 5 && nodes[node].type != 6) return std::nullopt;
  const auto is_on_channel = [&](std::size_t other) {
    return nodes[other].attributes.at("comm_src") == nodes[node].attributes.at("comm_src") &&
           nodes[other].attributes.at("comm_dst") == nodes[node].attributes.at("comm_dst");
  };
  for (std::size_t other = node; other > 0 && owners[other - 1] == owners[node]; --other) {
    if (is_on_channel(other - 1)) return other - 1;
  }
  return std::nullopt;
}

/// Expects that the dependencies of all nodes are the predecessors in the graph and the messages before them:
/// all are data dependencies, and those that wait for another reason are control dependencies as well.
void expect_graph(const AnalyzedProgram& analyzed, const std::vector<Node>& nodes, RankId rank) {
  const ExecutionGraph& graph = analyzed.timed_graph();
  const auto owners = instructions_of(analyzed.program(), rank);
  ASSERT_EQ(nodes.size(), owners.size());
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    EXPECT_EQ(nodes[n].id, n);
    std::set<std::uint64_t> data;
    std::set<std::uint64_t> control;
    const auto before = graph.predecessors_of(owners[n]);
    for (std::size_t i = 0; i < before.size(); ++i) {
      for (std::size_t other = 0; other < owners.size(); ++other) {
        if (owners[other] != before[i]) continue;
        data.insert(other);
        if (graph.reasons_of(owners[n])[i] != WaitReason::data) control.insert(other);
      }
    }
    if (const auto earlier = message_before(nodes, owners, n)) {
      data.insert(*earlier);
      control.insert(*earlier);
    }
    EXPECT_EQ(nodes[n].data, data) << nodes[n].name;
    EXPECT_EQ(nodes[n].control, control) << nodes[n].name;
  }
}

TEST(Chakra, DependenciesAreThoseOfTheGraph) {
  LoweringOptions grouped;
  grouped.grouping = Grouping::paired;
  grouped.communicators = CommunicatorPolicy::per_rank;
  for (const LoweringOptions& options : {LoweringOptions(), grouped}) {
    for (const char* name : {"1f1b", "zb-v", "dualpipe-v", "interleaved-1f1b"}) {
      const Program program = lower(generate(name, {.ranks = 3, .microbatches = 6}).value(), options).value();
      const AnalyzedProgram analyzed(program, TransportCapabilities());
      const CostTable costs = unit_cost_table({.c = 0.5});
      const SizeTable table = sizes();
      const ChakraInput input = {analyzed, costs, table};
      ASSERT_TRUE(check_chakra(input).has_value());
      for (int r = 0; r < 3; ++r) expect_graph(analyzed, nodes_of(input, r), RankId(r));
    }
  }
}

TEST(Chakra, BothEndsOfAMessageAgree) {
  const Program program = lower(generate("1f1b", {.ranks = 2, .microbatches = 3}).value(), {}).value();
  const AnalyzedProgram analyzed(program, TransportCapabilities());
  const CostTable costs = unit_cost_table({.c = 0.0015});
  const SizeTable table = sizes();
  std::map<std::string, std::pair<Node, Node>> by_tag;
  for (int r = 0; r < 2; ++r) {
    for (const Node& node : nodes_of({analyzed, costs, table}, r)) {
      EXPECT_EQ(node.attributes.at("is_cpu_op"), "0:27");
      if (node.type == 5) by_tag[node.attributes.at("comm_tag")].first = node;
      if (node.type == 6) by_tag[node.attributes.at("comm_tag")].second = node;
    }
  }
  ASSERT_EQ(by_tag.size(), 6U);
  for (const auto& [tag, ends] : by_tag) {
    const auto& [send, receive] = ends;
    const bool forward = send.name.find("SEND_F") != std::string::npos;
    EXPECT_NE(receive.name.find(forward ? "RECV_F" : "RECV_B"), std::string::npos);
    for (const char* key : {"comm_src", "comm_dst", "comm_size"})
      EXPECT_EQ(send.attributes.at(key), receive.attributes.at(key)) << key;
    EXPECT_EQ(send.attributes.at("comm_src"), forward ? "0:7" : "1:7");
    EXPECT_EQ(send.attributes.at("comm_size"), forward ? "1000:9" : "3000000000:9");
    EXPECT_EQ(send.micros, 2U);  // 1.5 us, rounded
  }
}

TEST(Chakra, ComputationHasItsTimeAndPairsAreOne) {
  const Program program = lower(generate("dualpipe-v", {.ranks = 2, .microbatches = 4}).value(), {}).value();
  const AnalyzedProgram analyzed(program, TransportCapabilities());
  const CostTable costs = unit_cost_table({.F = 1.25, .FB = 2.5});
  const SizeTable table = sizes();
  bool pairs = false;
  for (const Node& node : nodes_of({analyzed, costs, table}, 0)) {
    EXPECT_TRUE(node.name != "0F0" || node.micros == 1250);
    const bool is_pair = node.name.find("OVERLAP_F_B") != std::string::npos;
    EXPECT_TRUE(!is_pair || (node.type == 4 && node.micros == 2500)) << node.name;
    pairs = pairs || is_pair;
  }
  EXPECT_TRUE(pairs);
}

/// The simulator of networks runs computation one at a time, and copies beside it.
TEST(Chakra, CopiesAndSumsWithoutOtherRanksAreBesideComputation) {
  LoweringOptions options{.load = true, .reduce_grad = true};
  options.offload = offload_from_text("half").value();
  const Program program = lower(generate("gpipe", {.ranks = 2, .microbatches = 4}).value(), options).value();
  const AnalyzedProgram analyzed(program, TransportCapabilities());
  const CostTable costs = unit_cost_table({});
  SizeTable table = sizes();
  table.set({.kind = TensorKind::saved_for_input}, 30);
  table.set({.kind = TensorKind::saved_for_weight}, 12);
  table.set({.kind = TensorKind::boundary_input}, 8);
  std::map<std::string, int> seen;
  for (const Node& node : nodes_of({analyzed, costs, table}, 0)) {
    for (const auto& [name, type, bytes] :
         {std::tuple("OFFLOAD", 3, "42:9"), std::tuple("RELOAD", 2, "42:9"), std::tuple("LOAD", 2, "8:9")}) {
      if (node.name.find(name) == std::string::npos) continue;
      ++seen[name];
      EXPECT_EQ(node.type, static_cast<std::uint64_t>(type)) << node.name;
      EXPECT_EQ(node.attributes.at("tensor_size"), bytes) << node.name;
      break;
    }
    const bool sum = node.name.find("REDUCE_GRAD") != std::string::npos;
    EXPECT_EQ(node.attributes.at("is_cpu_op"), sum ? "1:27" : "0:27") << node.name;
    EXPECT_TRUE(!sum || node.type == 4);
    if (sum) ++seen["REDUCE_GRAD"];
  }
  EXPECT_EQ(seen,
            (std::map<std::string, int>{{"OFFLOAD", 2}, {"RELOAD", 2}, {"LOAD", 4}, {"REDUCE_GRAD", 1}}));
}

TEST(Chakra, SumsOverRanksAreCollectivesOfAGroup) {
  PipelineSpec spec = test::chain_spec(2, 2, 1);
  spec.blocks = {ParameterBlock{{StageId(0), StageId(1)}}};
  const Program program = HandProgram{
      spec,
      test::communicators({{0, 1}, {0, 1}, {0, 1}}),
      {{"0F0", "0SEND_F0@0", "0RECV_B0@1", "0B0", "0REDUCE_GRAD0@2"},
       {"1RECV_F0@0", "1F0", "1B0", "1SEND_B0@1",
        "0REDUCE_GRAD0@2"}}}.build();
  const AnalyzedProgram analyzed(program, TransportCapabilities());
  const CostTable costs = unit_cost_table({});
  const SizeTable table = sizes();
  const ChakraInput input = {analyzed, costs, table};
  ASSERT_TRUE(check_chakra(input).has_value());
  const Node sum = nodes_of(input, 1).back();
  EXPECT_EQ(sum.type, 7U);
  EXPECT_EQ(sum.attributes.at("pg_name"), "3");
  EXPECT_EQ(sum.attributes.at("comm_size"), "77:9");
  EXPECT_EQ(sum.attributes.at("comm_type"), "0:9");
  std::ostringstream groups;
  write_chakra_groups(groups, input);
  EXPECT_EQ(groups.str(), "{\"3\": [0, 1]}\n");
}

TEST(Chakra, WithoutSizesItIsRefused) {
  const Program program = lower(generate("1f1b", {.ranks = 2, .microbatches = 3}).value(), {}).value();
  const AnalyzedProgram analyzed(program, TransportCapabilities());
  const CostTable costs = unit_cost_table({});
  const SizeTable none;
  const auto checked = check_chakra({analyzed, costs, none});
  ASSERT_FALSE(checked.has_value());
  EXPECT_EQ(checked.error().place.found, "no size of 0SEND_F0");
  const Program sharded = lower(generate("vocab-1", {.ranks = 2, .microbatches = 3}).value(), {}).value();
  const SizeTable table = sizes();
  const AnalyzedProgram of_sharded(sharded, TransportCapabilities());
  EXPECT_EQ(check_chakra({of_sharded, costs, table}).error().code, ErrorCode::refused);
}

}  // namespace
}  // namespace ppsim
