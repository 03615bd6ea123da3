#include "ppsim/core/io/text.hpp"

#include <gtest/gtest.h>

#include "support/hand_program.hpp"

namespace ppsim {
namespace {

Pipeline made(PipelineSpec spec) { return Pipeline::make(std::move(spec)).value(); }

Pipeline chain4() { return made(test::chain_spec(2, 4, 8)); }

/// 0 -> 1 -> 2 and 0 -> 2: stage 0 has two consumers and stage 2 two producers.
Pipeline skip() {
  PipelineSpec spec = test::chain_spec(3, 3, 2);
  spec.edges = {{StageId(0), StageId(1)}, {StageId(1), StageId(2)}, {StageId(0), StageId(2)}};
  return made(std::move(spec));
}

Pipeline sliced() {
  PipelineSpec spec = test::chain_spec(2, 2, 2);
  spec.slices = 3;
  return made(std::move(spec));
}

/// A chain of two stages with a collective, a block of two stages and two updates.
Pipeline rich() {
  PipelineSpec spec = test::chain_spec(2, 2, 2);
  spec.collectives = {{"norm", {RankId(0), RankId(1)}}};
  spec.blocks = {ParameterBlock{{StageId(0), StageId(1)}}};
  spec.update = {0, 1};
  return made(std::move(spec));
}

/// Two microbatches of one update, with its norm and a collective of another name.
Pipeline one_update() {
  PipelineSpec spec = test::chain_spec(1, 1, 2);
  spec.collectives = {{"norm", {RankId(0)}}, {"loss", {RankId(0)}}};
  return made(std::move(spec));
}

/// Message, found and expected of what must not parse.
struct Refusal {
  std::string message;
  std::string found;
  std::string expected;
  friend bool operator==(const Refusal&, const Refusal&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Refusal& refusal) {
    return out << refusal.message << " (found " << refusal.found << ", expected " << refusal.expected << ")";
  }
};

template <class T>
Refusal refusal(const Expected<T>& parsed) {
  if (parsed) return {"parsed", "", ""};
  EXPECT_EQ(parsed.error().code, ErrorCode::bad_file);
  return {parsed.error().message, parsed.error().place.found, parsed.error().place.expected};
}

TEST(ActionText, NamesStageKindAndMicrobatch) {
  EXPECT_EQ(action_text(chain4(), make_action(OpKind::forward, 2, 0)), "2F0");
  EXPECT_EQ(action_text(chain4(), Action{1, -1, -1, 0, OpKind::unshard}), "1UNSHARD");
}

TEST(ActionText, LeavesOutTheOnlyNeighbour) {
  EXPECT_EQ(action_text(chain4(), make_transfer(OpKind::send_forward, 0, 3, 1)), "0SEND_F3");
  EXPECT_EQ(action_text(chain4(), make_transfer(OpKind::recv_backward, 0, 3, 1)), "0RECV_B3");
}

TEST(ActionText, NamesAnOtherEndThatDoesNotFollow) {
  EXPECT_EQ(action_text(chain4(), make_transfer(OpKind::send_forward, 0, 3, 3)), "0SEND_F3>3");
  EXPECT_EQ(action_text(chain4(), make_transfer(OpKind::recv_forward, 0, 3, 1)), "0RECV_F3<1");
  EXPECT_EQ(action_text(skip(), make_transfer(OpKind::send_forward, 0, 1, 2)), "0SEND_F1>2");
  EXPECT_EQ(action_text(skip(), make_transfer(OpKind::recv_forward, 2, 1, 0)), "2RECV_F1<0");
  EXPECT_EQ(action_text(skip(), make_transfer(OpKind::recv_forward, 1, 1, 0)), "1RECV_F1");
}

TEST(ActionText, LentActivationsNameARank) {
  const Action send = make_transfer(OpKind::send_activation, 0, 1, 1);
  EXPECT_EQ(action_text(chain4(), send), "0SEND_A1>1");
  EXPECT_EQ(parse_action(chain4(), "0SEND_A1>1"), send);
  EXPECT_EQ(refusal(parse_action(chain4(), "0SEND_A1")),
            (Refusal{"a transfer without its other end", "0SEND_A1", "the other rank"}));
}

TEST(ActionText, NamesTheSliceWhereThereAreSeveral) {
  EXPECT_EQ(action_text(sliced(), make_action(OpKind::forward, 1, 0, 0)), "1F0.0");
  EXPECT_EQ(action_text(sliced(), at_slice(make_transfer(OpKind::send_forward, 0, 1, 1), 2)), "0SEND_F1.2");
  EXPECT_EQ(refusal(parse_action(sliced(), "1F0")).message, "an action without slice");
  EXPECT_EQ(refusal(parse_action(chain4(), "1F0.0")).message, "an action with a slice too many");
}

TEST(ActionText, PrintsUpdatesAndCollectives) {
  EXPECT_EQ(action_text(rich(), Action{0, 0, -1, 0, OpKind::reduce_grad}), "0REDUCE_GRAD");
  EXPECT_EQ(action_text(rich(), Action{0, 1, -1, 0, OpKind::reduce_grad}), "0REDUCE_GRAD1");
  EXPECT_EQ(action_text(rich(), Action{0, 0, -1, 0, OpKind::optimizer}), "0OPT0");
  EXPECT_EQ(action_text(rich(), Action{0, -1, -1, 0, OpKind::collective}), "0COLL");
  EXPECT_EQ(action_text(rich(), Action{0, 1, -1, 0, OpKind::collective}), "0COLL1");
  EXPECT_EQ(parse_action(rich(), "0REDUCE_GRAD"), (Action{0, 0, -1, 0, OpKind::reduce_grad}));
  EXPECT_EQ(parse_action(rich(), "0COLL"), (Action{0, -1, -1, 0, OpKind::collective}));
}

TEST(ActionText, EveryKindParsesBack) {
  for (const OpInfo& row : kOpTable) {
    if (row.kind == OpKind::overlap) continue;
    Action action{0, row.microbatch == MicrobatchUse::none ? -1 : 1, -1, 0, row.kind};
    if (row.resource == Resource::p2p) action.peer = 1;
    const std::string text = action_text(rich(), action);
    EXPECT_EQ(parse_action(rich(), text), action) << text;
  }
}

TEST(ParseAction, IsAnchored) {
  const std::string expected = "an action such as 2F0, 0SEND_F3 or 1UNSHARD";
  for (const char* text : {"0FOO",
                           "",
                           "F0",
                           "0F0 ",
                           " 0F0",
                           "0F0x",
                           "0f0",
                           "-1F0",
                           "0F-1",
                           "0F+1",
                           "0F0>1",
                           "0SEND_F0<1",
                           "0RECV_F0>1",
                           "0F0.",
                           "0SEND_F0>",
                           "0OVERLAP_F_B",
                           "2BW0",
                           "0F99999999999",
                           "99999999999F0",
                           "0F0.99999999999"}) {
    EXPECT_EQ(refusal(parse_action(chain4(), text)), (Refusal{"not an action", text, expected}));
  }
}

TEST(ParseAction, TakesNoLeadingZeros) {
  for (const char* text : {"00F1", "0F01", "00F01", "0F00", "0F1.00", "0SEND_F0>01", "01RECV_B0<0"}) {
    EXPECT_EQ(refusal(parse_action(chain4(), text)),
              (Refusal{"not an action: a number has a leading zero", text,
                       "an action such as 2F0, 0SEND_F3 or 1UNSHARD"}));
  }
  EXPECT_TRUE(parse_action(chain4(), "0F0"));
}

TEST(ParseAction, NamesTheIdThatIsOutOfRange) {
  EXPECT_EQ(refusal(parse_action(chain4(), "4F0")),
            (Refusal{"stage 4 is out of range", "4F0", "stage in [0, 4)"}));
  EXPECT_EQ(refusal(parse_action(chain4(), "0F8")),
            (Refusal{"microbatch 8 is out of range", "0F8", "microbatch in [0, 8)"}));
  EXPECT_EQ(refusal(parse_action(chain4(), "0SEND_F0>4")).message, "stage 4 is out of range");
  EXPECT_EQ(refusal(parse_action(chain4(), "0SEND_A0>2")).message, "rank 2 is out of range");
  EXPECT_EQ(refusal(parse_action(sliced(), "0F0.3")).message, "slice 3 is out of range");
  EXPECT_EQ(refusal(parse_action(rich(), "1OPT0")).message, "block 1 is out of range");
  EXPECT_EQ(refusal(parse_action(rich(), "0OPT2")).message, "update 2 is out of range");
  EXPECT_EQ(refusal(parse_action(rich(), "1COLL")).message, "collective 1 is out of range");
  EXPECT_EQ(refusal(parse_action(one_update(), "0COLL1")).message, "update 1 is out of range");
  EXPECT_EQ(refusal(parse_action(one_update(), "1COLL2")).message, "microbatch 2 is out of range");
}

TEST(ParseAction, ChecksWhetherANumberBelongs) {
  EXPECT_EQ(refusal(parse_action(chain4(), "0F")).message, "an action without microbatch");
  EXPECT_EQ(refusal(parse_action(chain4(), "0UNSHARD1")).message, "an action with a microbatch too many");
  EXPECT_EQ(refusal(parse_action(chain4(), "0OPT")).message, "an action without update");
}

TEST(ParseAction, WantsTheOtherEndWhereItDoesNotFollow) {
  EXPECT_EQ(refusal(parse_action(skip(), "0SEND_F0")).message,
            "a transfer without its other end: stage 0 has 2 to send to");
  EXPECT_EQ(refusal(parse_action(chain4(), "0RECV_F0")).message,
            "a transfer without its other end: stage 0 has 0 to receive from");
}

TEST(ParseAction, MakesForeignBytesPrintable) {
  EXPECT_EQ(refusal(parse_action(chain4(), "0F\n\xff")).found, "0F\\x0a\\xff");
  EXPECT_EQ(refusal(parse_action(chain4(), std::string(500, 'A'))).found, std::string(60, 'A') + "...");
}

TEST(CellText, RoundTrips) {
  const Pipeline pipeline = chain4();
  const Cell pair(make_action(OpKind::forward, 0, 7), make_action(OpKind::backward, 2, 3));
  EXPECT_EQ(cell_text(pipeline, pair), "(0F7;2B3)OVERLAP_F_B");
  EXPECT_EQ(cell_text(pipeline, Cell()), "");
  for (const Cell& cell : {Cell(), Cell(make_action(OpKind::backward_weight, 1, 1)), pair}) {
    EXPECT_EQ(parse_cell(pipeline, cell_text(pipeline, cell)), cell);
  }
}

TEST(ParseStep, RefusesBrokenPairs) {
  for (const char* text : {"(0F7;2B3)", "(0F7)OVERLAP_F_B", "(", "()OVERLAP_F_B", "(0F7;2B3)OVERLAP_F_B "}) {
    EXPECT_EQ(refusal(parse_cell(chain4(), text)).message, "not an overlapped pair") << text;
  }
  EXPECT_EQ(refusal(parse_cell(chain4(), "(;)OVERLAP_F_B")).message, "not an action");
  EXPECT_EQ(refusal(parse_cell(chain4(), "(0F7;2B3;0F1)OVERLAP_F_B")).found, "2B3;0F1");
  EXPECT_EQ(refusal(parse_cell(chain4(), "(2B3;0F7)OVERLAP_F_B")),
            (Refusal{"an overlapped pair of other kinds", "(2B3;0F7)OVERLAP_F_B", "an F, then a B or I"}));
}

TEST(InstructionText, ShowsCommunicatorsOrderAndBlocking) {
  const Program program =
      test::HandProgram{.pipeline = test::chain_spec(2, 2, 2),
                        .communicators = test::communicators({{0, 1}, {0, 1}}),
                        .rows = {{"0F0", "0SEND_F0@0 after 0", "{0SEND_F1@0 0RECV_B0@1} after 0,1 !"},
                                 {"(1F1;1B0)OVERLAP_F_B !"}}}
          .build();
  EXPECT_EQ(instruction_text(program, InstructionId(0)), "0F0");
  EXPECT_EQ(instruction_text(program, InstructionId(1)), "0SEND_F0@0 after 0");
  EXPECT_EQ(instruction_text(program, InstructionId(2)), "{0SEND_F1@0 0RECV_B0@1} after 0,1 !");
  EXPECT_EQ(instruction_text(program, InstructionId(3)), "(1F1;1B0)OVERLAP_F_B !");
  EXPECT_EQ(actions_text(program, InstructionId(2)), "{0SEND_F1 0RECV_B0}");
}

TEST(ParseInstruction, ReadsEveryPart) {
  const auto draft = parse_instruction(chain4(), "{1RECV_F3@0 1SEND_B1@12} after 7,9 !");
  ASSERT_TRUE(draft) << to_string(draft.error());
  const InstructionDraft expected = {
      {make_transfer(OpKind::recv_forward, 1, 3, 0), make_transfer(OpKind::send_backward, 1, 1, 0)},
      {CommunicatorId(0), CommunicatorId(12)},
      InstructionForm::group,
      {7, 9},
      true};
  EXPECT_EQ(*draft, expected);
}

TEST(ParseInstruction, RefusesWhatIsBroken) {
  const auto message = [](const std::string& text) {
    return refusal(parse_instruction(chain4(), text)).message;
  };
  EXPECT_EQ(message(""), "not an action");
  EXPECT_EQ(message("0SEND_F0"), "a communication without communicator");
  EXPECT_EQ(message("0F0@1"), "a communicator too many");
  EXPECT_EQ(message("0SEND_F0@"), "a broken communicator");
  EXPECT_EQ(message("0SEND_F0@1x"), "a broken communicator");
  EXPECT_EQ(message("0SEND_F0@99999999999"), "a broken communicator");
  EXPECT_EQ(message("{0SEND_F0@0"), "a group without end");
  EXPECT_EQ(message("{"), "a group without end");
  EXPECT_EQ(message("{}"), "not an action");
  EXPECT_EQ(message("{0F0}"), "a group of more than sends and receives");
  EXPECT_EQ(message("{0SEND_F0@0  0SEND_F1@0}"), "not an action");
  EXPECT_EQ(message("0F0 after "), "a broken list of positions");
  EXPECT_EQ(message("0F0 after 1,"), "a broken list of positions");
  EXPECT_EQ(message("0F0 after 1 2"), "a broken list of positions");
  EXPECT_EQ(message("0F0!"), "not an action");
  EXPECT_EQ(message("0F0 ! after 1"), "not an action");
}

TEST(ParseInstruction, LimitsGroups) {
  const auto group_of = [](std::size_t members) {
    std::string text = "{0SEND_F0@0";
    for (std::size_t i = 1; i < members; ++i) text += " 0SEND_F0@0";
    return text + "}";
  };
  EXPECT_TRUE(parse_instruction(chain4(), group_of(kMaxGroup)));
  EXPECT_EQ(refusal(parse_instruction(chain4(), group_of(kMaxGroup + 1))).message, "a group of 65");
}

}  // namespace
}  // namespace ppsim
