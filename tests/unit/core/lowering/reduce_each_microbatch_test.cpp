// Gradients of tied weights that are summed across ranks for every microbatch, and not once behind all of
// them.

#include <gtest/gtest.h>

#include <algorithm>
#include <variant>

#include "ppsim/core/execution/analyzed_program.hpp"
#include "ppsim/core/execution/facts.hpp"
#include "ppsim/core/io/json.hpp"
#include "ppsim/core/io/text.hpp"
#include "ppsim/core/io/torch_csv.hpp"
#include "ppsim/core/ir/hash.hpp"
#include "ppsim/core/ir/replicas.hpp"
#include "ppsim/core/ir/tied_ends.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/core/memory/tensors.hpp"
#include "ppsim/schedules/registry.hpp"

namespace ppsim {
namespace {

const LoweringOptions kOnce{.reduce_grad = true, .optimizer = true};
const LoweringOptions kEach{.reduce_grad = true, .reduce_each_microbatch = true, .optimizer = true};

Schedule tied(const char* name, int ranks, int microbatches) {
  return with_tied_ends(generate(name, {.ranks = ranks, .microbatches = microbatches}).value()).value();
}

std::string row_of(const Program& program, int rank) {
  std::string text;
  for (auto id = program.first(RankId(rank)); id < program.last(RankId(rank));
       id = InstructionId(id.value() + 1))
    text += (text.empty() ? "" : " ") + actions_text(program, id);
  return text;
}

/// The actions of a block on a rank, in issue order.
std::vector<std::string> sums_of(const Program& program, int rank, int block) {
  std::vector<std::string> found;
  for (auto id = program.first(RankId(rank)); id < program.last(RankId(rank));
       id = InstructionId(id.value() + 1)) {
    const Action& action = program.actions(id).front();
    if (action.kind == OpKind::reduce_grad && action.subject == block)
      found.push_back(action_text(program.pipeline(), action));
  }
  return found;
}

TEST(ReduceEachMicrobatch, FollowsTheBackwardOfEach) {
  const Program program = lower(tied("1f1b", 2, 2), kEach).value();
  for (const int rank : {0, 1}) {
    const std::string row = row_of(program, rank);
    for (const char* mb : {"0", "1"}) {
      const std::size_t sum = row.find(std::string("2REDUCE_GRAD") + mb);
      EXPECT_LT(row.find(std::to_string(rank) + "B" + mb), sum) << row;
      EXPECT_LT(sum, row.find("2OPT0")) << row;
    }
  }
  for (const int rank : {0, 1}) {
    EXPECT_EQ(sums_of(program, rank, 2), (std::vector<std::string>{"2REDUCE_GRAD0", "2REDUCE_GRAD1"}));
    EXPECT_EQ(sums_of(program, rank, rank), std::vector<std::string>{std::to_string(rank) + "REDUCE_GRAD"});
  }
  EXPECT_EQ(sums_of(lower(tied("1f1b", 2, 2), kOnce).value(), 0, 2),
            std::vector<std::string>{"2REDUCE_GRAD"});
}

TEST(ReduceEachMicrobatch, UpdatesNeedEverySum) {
  const Program program = lower(tied("1f1b", 2, 3), kEach).value();
  std::vector<Requirement> needs;
  required_facts(program.pipeline(), make_action(OpKind::optimizer, 2, 0), RankId(0), needs);
  for (int m = 0; m < 3; ++m) {
    const Requirement sum{{FactKind::reduced, 2, m, 0, -1}, false};
    EXPECT_EQ(std::count(needs.begin(), needs.end(), sum), 1) << m;
  }
  ProgramDraft draft = to_draft(program);
  for (auto& row : draft.rows) {
    std::erase_if(row, [](const InstructionDraft& one) {
      return one.actions.front() == make_action(OpKind::reduce_grad, 2, 1);
    });
  }
  for (auto& row : draft.rows) {
    for (InstructionDraft& one : row) one.after.clear();
  }
  const Program without = ProgramBuilder::build(program.pipeline(), draft).value();
  EXPECT_TRUE(AnalyzedProgram(program, TransportCapabilities{}).finishes());
  EXPECT_FALSE(AnalyzedProgram(without, TransportCapabilities{}).finishes());
}

TEST(ReduceEachMicrobatch, KeepsWhatIsNotSummedYetInATensorOfItsOwn) {
  const Program program = lower(tied("1f1b", 2, 2), kEach).value();
  const TensorTable table = tensor_table(program);
  int parts = 0;
  for (const Tensor& tensor : table.tensors) {
    if (tensor.size_class.subject != 2) continue;
    if (tensor.size_class.kind == TensorKind::partial_gradients) {
      ++parts;
      const auto users = table.users_of(tensor);
      ASSERT_EQ(users.size(), 2U);
      EXPECT_EQ(program.actions(users.front()).front().kind, OpKind::backward);
      EXPECT_EQ(program.actions(users.back()).front(),
                make_action(OpKind::reduce_grad, 2, tensor.microbatch));
    }
    if (tensor.size_class.kind == TensorKind::gradients) {
      EXPECT_EQ(table.writers_of(tensor).size(), 2U);
      EXPECT_EQ(program.actions(table.users_of(tensor).back()).front().kind, OpKind::optimizer);
    }
  }
  EXPECT_EQ(parts, 4);
}

TEST(ReduceEachMicrobatch, PartsAreAsLargeAsGradientsWhereNoSizeSaysOtherwise) {
  SizeTable sizes;
  sizes.set({TensorKind::gradients, 2}, 100);
  EXPECT_EQ(sizes({TensorKind::partial_gradients, 2}), 100);
  sizes.set({TensorKind::partial_gradients, 2}, 60);
  EXPECT_EQ(sizes({TensorKind::partial_gradients, 2}), 60);
  EXPECT_EQ(info(TensorKind::partial_gradients).subject, Subject::block);
}

TEST(ReduceEachMicrobatch, IsPartOfFilesAndHashes) {
  const Program once = lower(tied("1f1b", 2, 2), kOnce).value();
  const Program each = lower(tied("1f1b", 2, 2), kEach).value();
  EXPECT_NE(program_hash(once), program_hash(each));
  const std::string text = to_json(each);
  EXPECT_NE(text.find("reduced_each_microbatch"), std::string::npos);
  EXPECT_EQ(to_json(once).find("reduced_each_microbatch"), std::string::npos);
  EXPECT_EQ(std::get<Program>(ir_from_json(text, "each.json").value()), each);
  EXPECT_FALSE(to_csv(each, CsvDialect::torch));
  const Pipeline& pipeline = each.pipeline();
  EXPECT_EQ(parse_action(pipeline, "2REDUCE_GRAD1"), make_action(OpKind::reduce_grad, 2, 1));
  EXPECT_FALSE(parse_action(pipeline, "2REDUCE_GRAD"));
  EXPECT_FALSE(parse_action(pipeline, "2REDUCE_GRAD2"));
  EXPECT_EQ(parse_action(pipeline, "1REDUCE_GRAD"), make_action(OpKind::reduce_grad, 1, 0));
}

TEST(ReduceEachMicrobatch, AFileMayNotNameABlockThatIsNone) {
  std::string text = to_json(lower(tied("1f1b", 2, 2), kEach).value());
  const std::string key = "\"reduced_each_microbatch\": [";
  const std::size_t at = text.find(key);
  ASSERT_NE(at, std::string::npos);
  text[at + key.size()] = '7';
  const auto read = ir_from_json(text, "each.json");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message, "/pipeline/reduced_each_microbatch: no such block");
  EXPECT_EQ(read.error().place.found, "7");
}

TEST(ReduceEachMicrobatch, IsRefusedWhereNothingIsSummedAcrossRanks) {
  const auto refusal = [](const Schedule& schedule, const LoweringOptions& options) {
    const auto program = lower(schedule, options);
    return program ? std::string() : program.error().message;
  };
  const Schedule plain = generate("1f1b", {.ranks = 2, .microbatches = 2}).value();
  EXPECT_EQ(refusal(plain, kEach), "no gradients are summed across ranks for every microbatch");
  EXPECT_EQ(refusal(tied("1f1b", 2, 2), {.reduce_each_microbatch = true}),
            "a sum of gradients for every microbatch needs reduce-grad");
  LoweringOptions as_jaxpp = kEach;
  as_jaxpp.order = IssueOrder::jaxpp;
  EXPECT_EQ(refusal(tied("1f1b", 2, 2), as_jaxpp),
            "order jaxpp has no sum of gradients for every microbatch: JaxPP sums after its loop");
  // Each microbatch visits one of the two copies of a stage.
  EXPECT_EQ(refusal(tied("chimera", 2, 4), kEach)
                .find("the gradients of block 0 are summed for every microbatch, "
                      "and on route 0 rank"),
            0U);
  const Schedule copies = replicated(tied("1f1b", 2, 2), 2).value();
  EXPECT_NE(refusal(copies, kEach).find("are summed for every microbatch"), std::string::npos);
}

TEST(ReduceEachMicrobatch, StaysWithReplicasAndIsRefusedThere) {
  PipelineSpec spec = lower(tied("1f1b", 2, 2), kEach).value().pipeline().spec();
  ScheduleBuilder builder("tied", Pipeline::make(spec).value());
  const Schedule plain = tied("1f1b", 2, 2);
  for (int r = 0; r < 2; ++r) {
    for (const Cell& cell : plain.row(RankId(r))) builder.add(RankId(r), cell);
  }
  EXPECT_FALSE(replicated(builder.build().value(), 2));
}

}  // namespace
}  // namespace ppsim
