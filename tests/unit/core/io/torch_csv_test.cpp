#include "ppsim/core/io/torch_csv.hpp"

#include <gtest/gtest.h>

#include "ppsim/core/io/text.hpp"
#include "support/hand_program.hpp"

namespace ppsim {
namespace {

constexpr CsvDialect kTorch = CsvDialect::torch;

/// Found and where: "row:column message (found, expected)".
template <class T>
std::string read_error(const Expected<T>& read) {
  return read ? "read" : to_string(read.error());
}

Expected<Schedule> schedule(std::string_view text, CsvDialect dialect = kTorch) {
  return schedule_from_csv(text, "a/f.csv", dialect);
}
Expected<Program> program(std::string_view text, CsvDialect dialect = kTorch) {
  return program_from_csv(text, "f.csv", dialect, CommunicatorPolicy::per_edge);
}

TEST(ScheduleFromCsv, InfersThePipeline) {
  const auto read = schedule("0F0,0F1,3F0,3F1,,3B0,3B1,0B0,0B1\n1F0,1F1,2F0,2F1,2B0,2B1,1B0,1B1\n");
  ASSERT_TRUE(read) << to_string(read.error());
  const PipelineSpec& spec = read->pipeline().spec();
  EXPECT_EQ(read->name(), "f");
  EXPECT_EQ(spec.ranks, 2);
  EXPECT_EQ(spec.stages, 4);
  EXPECT_EQ(spec.microbatches, 2);
  EXPECT_EQ(spec.placement, (IdVector<StageId, RankId>{RankId(0), RankId(1), RankId(1), RankId(0)}));
  EXPECT_TRUE(read->row(RankId(0))[4].idle());
}

TEST(ScheduleFromCsv, TakesEitherLineEndAndQuotesAndBlanks) {
  const std::string lf = "0F0,0B0\n\n1F0,1B0\n";
  const auto expected = schedule(lf);
  ASSERT_TRUE(expected) << to_string(expected.error());
  EXPECT_EQ(expected->pipeline().ranks(), 3);
  for (const char* text :
       {"0F0,0B0\r\n\r\n1F0,1B0\r\n", "0F0,0B0\n\n1F0,1B0", "0F0,0B0\n\n1F0,1B0\r", "0F0,0B0\n\n1F0,1B0\n\n",
        "0F0,0B0\r\n\r\n1F0,1B0\r\n\r\n\r\n", "\"0F0\",\"0B0\"\n\n1F0, 1B0 \n",
        "\xef\xbb\xbf"
        "0F0,0B0\n\n1F0,1B0\n"}) {
    EXPECT_EQ(schedule(text), expected) << text;
  }
}

TEST(ScheduleFromCsv, TakesEitherLineEndOfPassesAlone) {
  const auto expected = schedule("\"0F0\",0B0\n1F0,1B0\n");
  ASSERT_TRUE(expected) << to_string(expected.error());
  for (const char* text :
       {"0F0,0B0\n1F0,1B0\n", "0F0,0B0\r\n1F0,1B0\r\n", "0F0,0B0\n1F0,1B0", "0F0,0B0\n1F0,1B0\r"})
    EXPECT_EQ(schedule(text), expected) << text;
  EXPECT_FALSE(schedule("0F0,0B0\n1F0,1B0\r\r\n"));
}

TEST(ScheduleFromCsv, TakesNoEmptyLineAtTheEndForARank) {
  const auto two_ranks = schedule("0F0,0B0\n1F0,1B0\n");
  ASSERT_TRUE(two_ranks);
  EXPECT_EQ(schedule("0F0,0B0\n1F0,1B0\n\n\n"), two_ranks);
  EXPECT_EQ(program("0F0,0B0\n\n"), program("0F0,0B0\n"));
  EXPECT_FALSE(schedule("\n\n"));
  // An idle cell is no empty line.
  EXPECT_EQ(schedule("0F0,0B0\n1F0,1B0\n\"\"\r\n")->pipeline().ranks(), 3);
  EXPECT_EQ(read_error(schedule("0F0\r,0B0\n")).find("a/f.csv:1:1: not an action"), 0U);
}

TEST(ScheduleFromCsv, KeepsIdleCells) {
  const auto idle = schedule(",,0F0,,,0B0,\n1F0,,1B0\n");
  ASSERT_TRUE(idle);
  EXPECT_EQ(idle->row(RankId(0)).size(), 7U);
  EXPECT_TRUE(idle->row(RankId(0))[4].idle());
  EXPECT_FALSE(idle->row(RankId(0))[5].idle());
  EXPECT_EQ(to_csv(*idle, kTorch), ",,0F0,,,0B0,\r\n1F0,,1B0\r\n");
  EXPECT_EQ(read_error(schedule(",,0F0,,,0FOO,\n")).find("a/f.csv:1:6: not an action"), 0U);
}

TEST(ScheduleFromCsv, TakesNoMoreEmptyCellsAndLinesThanCanBeMeant) {
  EXPECT_EQ(read_error(schedule("0F0,0B0" + std::string(5'000'000, ',') + "\n")),
            "a/f.csv:1:4194307: a file with too many empty cells (found empty cell 4194305, expected at most "
            "4194304)");
  EXPECT_EQ(read_error(schedule("0F0,0B0" + std::string(100'000, '\n') + "1F0,1B0\n")),
            "a/f.csv:100001:1: a file with too many rows (found row 100001, expected at most 65536)");
  EXPECT_TRUE(schedule("0F0,0B0" + std::string(100'000, '\n')));
}

TEST(ScheduleFromCsv, SaysWhichCellIsWrong) {
  EXPECT_EQ(read_error(schedule("0F0,0B0\n1F0,1FOO\n")),
            "a/f.csv:2:2: not an action (found 1FOO, expected F, I, W or B of a stage and a microbatch, such "
            "as 2F0)");
  EXPECT_EQ(read_error(schedule("0F0,0SEND_F0\n")),
            "a/f.csv:1:2: not an action (found 0SEND_F0, expected F, I, W or B of a stage and a microbatch, "
            "such as 2F0)");
  EXPECT_EQ(read_error(schedule("0F0.1,0B0\n")),
            "a/f.csv:1:1: an action with more than PyTorch's files hold (found 0F0.1, expected F, I, W or B "
            "of a stage "
            "and a microbatch, such as 2F0)");
  EXPECT_EQ(read_error(schedule("0F0,(0F1;0F2)OVERLAP_F_B,0F3\n")),
            "a/f.csv:1:2: an overlapped pair of other kinds (found (0F1;0F2)OVERLAP_F_B, expected an F, then "
            "a B or I)");
}

TEST(ScheduleFromCsv, RefusesBrokenQuotes) {
  EXPECT_EQ(read_error(schedule("0F0,\"0B0\n")),
            "a/f.csv:1:2: a broken quoted cell (found the end of the file, expected a closing quote)");
  EXPECT_EQ(read_error(schedule("\"0F0\"x,0B0\n")),
            "a/f.csv:1:1: a broken quoted cell (found x, expected a comma or the end of the line)");
  EXPECT_EQ(read_error(schedule("\"0F0\"\"\",0B0\n")),
            "a/f.csv:1:1: not an action (found 0F0\", expected F, I, W or B of a stage and a microbatch, "
            "such as 2F0)");
}

TEST(ScheduleFromCsv, RefusesAStageInTwoRowsAndGaps) {
  EXPECT_EQ(read_error(schedule("0F0,0B0\n1F0,1B0,0F1\n")),
            "a/f.csv:2:3: stage 0 stands in row 1 too (found 0F1, expected each stage in one row)");
  EXPECT_EQ(read_error(schedule("0F0,0B0\n2F0,2B0\n")),
            "a/f.csv: the file names no stage 1 (found stage 2, expected stage 1 too)");
  EXPECT_EQ(
      read_error(schedule("0F0,0B0,0F2147483647\n")),
      "a/f.csv: the file names no microbatch 1 (found microbatch 2147483647, expected microbatch 1 too)");
  EXPECT_EQ(read_error(schedule("")), "a/f.csv: the file names no stage (found nothing, expected stage 0)");
}

TEST(ScheduleFromCsv, ReportsBrokenSchedules) {
  const auto read = schedule("0F0\n1F0,1B0\n");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::ill_formed);
  EXPECT_EQ(read.error().place.file, "a/f.csv");
}

TEST(ScheduleFromCsv, DialectsNameBackwardsDifferently) {
  const auto native = schedule("0F0,0F1,0I0,0W0,0B1\n");
  ASSERT_TRUE(native) << to_string(native.error());
  EXPECT_EQ(schedule("0F0,0F1,0B0,0W0,0BW1\n", CsvDialect::legacy), native);
  const auto split = schedule("0F0,0I0,0W0\n");
  ASSERT_TRUE(split) << to_string(split.error());
  EXPECT_EQ(schedule("0F0,0B0,0W0\n", CsvDialect::zero_bubble), split);
  EXPECT_EQ(
      read_error(schedule("0F0,0I0,0W0\n", CsvDialect::zero_bubble)),
      "a/f.csv:1:2: not an action (found 0I0, expected F, B or W of a stage and a microbatch, such as 2F0)");
  // A cell of another alphabet is named.
  EXPECT_EQ(read_error(schedule("0F0,0BW0\n")),
            "a/f.csv:1:2: not an action of this dialect (found 0BW0, expected F, I, W or B of a stage and a "
            "microbatch, such as 2F0, or --dialect legacy)");
}

TEST(ToCsv, WritesEachDialect) {
  const auto mixed = schedule("0F0,0F1,0I0,0W0,0B1\n").value();
  EXPECT_EQ(to_csv(mixed, kTorch), "0F0,0F1,0I0,0W0,0B1\r\n");
  EXPECT_EQ(to_csv(mixed, CsvDialect::legacy), "0F0,0F1,0B0,0W0,0BW1\r\n");
  EXPECT_EQ(read_error(to_csv(mixed, CsvDialect::zero_bubble)),
            "PyTorch's CSV cannot hold 0B1 in this dialect");
}

/// The output of Python's csv.writer for
/// [[F0, None, (0F1;0B0)OVERLAP_F_B, B1, None], [], [None], [None, None], [1F0, 1B0, 1F1, 1B1]].
TEST(ToCsv, IsByteEqualToPythonsWriter) {
  const std::string python =
      "0F0,,(0F1;0B0)OVERLAP_F_B,0B1,\r\n"
      "\r\n"
      "\"\"\r\n"
      ",\r\n"
      "1F0,1B0,1F1,1B1\r\n";
  const auto read = schedule(python);
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(read->row(RankId(1)).size(), 0U);
  EXPECT_EQ(read->row(RankId(2)).size(), 1U);
  EXPECT_EQ(read->row(RankId(3)).size(), 2U);
  EXPECT_EQ(to_csv(*read, kTorch), python);
}

TEST(ToCsv, RefusesWhatTheFormatCannotHold) {
  const auto written = [](PipelineSpec spec) {
    const Pipeline pipeline = Pipeline::make(std::move(spec)).value();
    ScheduleBuilder builder("", pipeline);
    for (int s = 0; s < pipeline.stages(); ++s) {
      for (int m = 0; m < pipeline.microbatches(); ++m) {
        if (!pipeline.on_route(StageId(s), MicrobatchId(m))) continue;
        for (int k = 0; k < pipeline.slices(); ++k) {
          builder.add(OpKind::forward, StageId(s), MicrobatchId(m), SliceId(k));
        }
      }
    }
    return read_error(to_csv(builder.build().value(), kTorch));
  };
  PipelineSpec spec = test::chain_spec(3, 3, 2);
  EXPECT_EQ(written(spec), "read");
  PipelineSpec slices = spec;
  slices.slices = 2;
  EXPECT_EQ(written(slices), "PyTorch's CSV cannot hold 2 slices of a microbatch");
  PipelineSpec routes = spec;
  routes.routes = {{StageId(0)}, {StageId(1), StageId(2)}};
  routes.route = {RouteId(0), RouteId(1)};
  EXPECT_EQ(written(routes), "PyTorch's CSV cannot hold 2 routes");
  PipelineSpec edges = spec;
  edges.edges = {{StageId(0), StageId(1)}, {StageId(1), StageId(2)}, {StageId(0), StageId(2)}};
  EXPECT_EQ(written(edges), "PyTorch's CSV cannot hold edges that are not the chain 0 -> 1 -> ...");
  PipelineSpec blocks = spec;
  blocks.blocks = {ParameterBlock{{StageId(0), StageId(1), StageId(2)}}};
  EXPECT_EQ(written(blocks), "PyTorch's CSV cannot hold parameter blocks that are not one per stage");
  PipelineSpec updates = spec;
  updates.update = {0, 1};
  EXPECT_EQ(written(updates), "PyTorch's CSV cannot hold updates and weight versions");
  PipelineSpec collectives = spec;
  collectives.collectives = {{"norm", {RankId(0)}}};
  EXPECT_EQ(written(collectives), "PyTorch's CSV cannot hold named collectives");
}

/// The deferred receives that PyTorch's own test expects.
constexpr const char* kDeferred =
    "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\r\n"
    "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\r\n";

TEST(ProgramFromCsv, ReadsACommunicationFileAsItIs) {
  const auto read = program(kDeferred);
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(instruction_text(*read, InstructionId(1)), "0SEND_F0@0");
  EXPECT_EQ(instruction_text(*read, InstructionId(4)), "0RECV_B0@1");
  EXPECT_EQ(instruction_text(*read, InstructionId(8)), "1RECV_F0@0");
  ASSERT_EQ(read->communicators().size(), 2U);
  EXPECT_EQ(read->communicators()[0].name, "0>1");
  EXPECT_EQ(to_csv(*read, kTorch), kDeferred);
}

TEST(ProgramFromCsv, ReadsEveryKindThatPyTorchHas) {
  const std::string text =
      "0UNSHARD,0F0,0SEND_F0,0RECV_B0,0I0,0W0,0REDUCE_GRAD,0RESHARD\r\n"
      "1RECV_F0,(1F0;1B0)OVERLAP_F_B,1SEND_B0\r\n";
  const auto read = program(text);
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(to_csv(*read, kTorch), text);
}

TEST(ProgramFromCsv, RefusesEmptyCellsAndTransfersThatLeadNowhere) {
  EXPECT_EQ(read_error(program("0F0,,0B0\n")),
            "f.csv:1:2: an empty cell (found nothing, expected an action; only compute_only files have idle "
            "cells)");
  EXPECT_EQ(read_error(program("0F0,0SEND_F0,0B0\n")),
            "f.csv:1:2: a transfer without its other end: stage 0 has 0 to send to (found 0SEND_F0, expected "
            "a transfer "
            "with one neighbour stage, or the other stage named)");
  EXPECT_EQ(read_error(program("0F0,0R0,0B0\n")),
            "f.csv:1:2: not an action (found 0R0, expected an action of PyTorch, such as 2F0, 0SEND_F3 or "
            "1UNSHARD)");
}

/// The instructions of a rank with what each is `after`.
std::vector<std::string> row_texts(const Program& read, int rank) {
  std::vector<std::string> row;
  for (InstructionId id = read.first(RankId(rank)); id < read.last(RankId(rank));
       id = InstructionId(id.value() + 1)) {
    std::string text = actions_text(read, id);
    for (const InstructionId after : read.after(id)) text += " after " + actions_text(read, after);
    row.push_back(text);
  }
  return row;
}

/// The dump of PyTorch 2.15 for two stages and two microbatches, with a wait that holds things up.
constexpr const char* kWaits =
    "0F0,0SEND_F0,0WAIT_SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0WAIT_SEND_F1,0REDUCE_GRAD,"
    "0WAIT_REDUCE_GRAD\r\n"
    "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1,1REDUCE_GRAD,1WAIT_REDUCE_GRAD,1WAIT_SEND_B0,"
    "1WAIT_SEND_B1\r\n";

TEST(ProgramFromCsv, WhatARankIssuesBehindAWaitComesAfterWhatIsWaitedFor) {
  const auto read = program(kWaits);
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(row_texts(*read, 0),
            (std::vector<std::string>{"0F0", "0SEND_F0", "0F1 after 0SEND_F0", "0SEND_F1 after 0SEND_F0",
                                      "0RECV_B0 after 0SEND_F0", "0B0", "0RECV_B1", "0B1",
                                      "0REDUCE_GRAD after 0SEND_F0 after 0SEND_F1"}));
  EXPECT_EQ(row_texts(*read, 1), (std::vector<std::string>{"1RECV_F0", "1F0", "1B0", "1SEND_B0", "1RECV_F1",
                                                           "1F1", "1B1", "1SEND_B1", "1REDUCE_GRAD"}))
      << "a wait at the end of a row holds nothing up";
  EXPECT_EQ(to_csv(*read, CsvDialect::torch_2_15), kWaits);
  EXPECT_EQ(read_error(to_csv(*read, kTorch)), "PyTorch's CSV cannot hold `after` (rank 0: 0F1)");
}

TEST(ProgramFromCsv, RefusesWaitsForNothing) {
  EXPECT_EQ(
      read_error(program("0F0,0WAIT_SEND_F0,0SEND_F0\n1F0\n")),
      "f.csv:1:2: a wait for nothing (found 0WAIT_SEND_F0, expected 0SEND_F0 before it in its row, and no "
      "other wait for it)");
  EXPECT_EQ(
      read_error(program("0F0,0SEND_F0,0WAIT_SEND_F0,0WAIT_SEND_F0\n1F0\n")),
      "f.csv:1:4: a wait for nothing (found 0WAIT_SEND_F0, expected 0SEND_F0 before it in its row, and no "
      "other wait for it)");
  EXPECT_EQ(read_error(program("0F0,0SEND_F0,0WAIT_RECV_F0\n1F0\n")),
            "f.csv:1:3: not a wait (found 0WAIT_RECV_F0, expected WAIT_SEND_F, WAIT_SEND_B or "
            "WAIT_REDUCE_GRAD, such as 0WAIT_SEND_F3)");
  EXPECT_EQ(read_error(schedule("0F0,0WAIT_SEND_F0\n1F0\n")),
            "a/f.csv:1:2: not an action (found 0WAIT_SEND_F0, expected F, I, W or B of a stage and a "
            "microbatch, such as 2F0)");
}

/// PyTorch's rule: behind the stage's own backward for a SEND_F, before the next reduction for a reduction,
/// at the end for others.
TEST(ToCsv, WritesAWaitForEverySendAndReductionForPyTorch215) {
  const auto read = program(
      "0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD,3RECV_F0,3F0,3B0,3SEND_B0,3REDUCE_GRAD\n"
      "1RECV_F0,1F0,2F0,2SEND_F0,2RECV_B0,(1F1;2B0)OVERLAP_F_B,1B0,1SEND_B0\n");
  ASSERT_TRUE(read) << to_string(read.error());
  const auto text = to_csv(*read, CsvDialect::torch_2_15);
  ASSERT_TRUE(text) << to_string(text.error());
  EXPECT_EQ(*text,
            "0F0,0SEND_F0,0RECV_B0,0B0,0WAIT_SEND_F0,0REDUCE_GRAD,3RECV_F0,3F0,3B0,3SEND_B0,"
            "0WAIT_REDUCE_GRAD,3REDUCE_GRAD,3WAIT_REDUCE_GRAD,3WAIT_SEND_B0\r\n"
            "1RECV_F0,1F0,2F0,2SEND_F0,2RECV_B0,(1F1;2B0)OVERLAP_F_B,2WAIT_SEND_F0,1B0,1SEND_B0,"
            "1WAIT_SEND_B0\r\n");
}

TEST(ToCsv, RefusesAfterThatNoWaitSays) {
  const auto written = [](std::vector<std::string> row) {
    return read_error(to_csv(test::HandProgram{.pipeline = test::chain_spec(2, 2, 1),
                                               .communicators = test::communicators({{0, 1}, {0}}),
                                               .rows = {std::move(row), {"1F0"}}}
                                 .build(),
                             CsvDialect::torch_2_15));
  };
  const std::string refused =
      "PyTorch's CSV cannot hold `after` other than that of waits for sends and reductions";
  EXPECT_EQ(written({"0F0", "0SEND_F0@0", "0B0 after 1"}), "read");
  EXPECT_EQ(written({"0F0", "0SEND_F0@0 after 0"}), refused);
  EXPECT_EQ(written({"0F0", "0SEND_F0@0", "0I0", "0W0 after 1", "0RECV_B0@0"}), refused)
      << "a wait would hold up 0RECV_B0 as well";
}

TEST(ToCsv, RefusesInstructionsThatPyTorchDoesNotHave) {
  const auto written = [](std::vector<std::string> row) {
    return read_error(to_csv(test::HandProgram{.pipeline = test::chain_spec(2, 2, 1),
                                               .communicators = test::communicators({{0, 1}, {0}}),
                                               .rows = {std::move(row), {"1F0"}}}
                                 .build(),
                             kTorch));
  };
  EXPECT_EQ(written({"0F0"}), "read");
  EXPECT_EQ(written({"0F0", "{0SEND_F0@0}"}), "PyTorch's CSV cannot hold groups (rank 0: {0SEND_F0})");
  EXPECT_EQ(written({"0F0", "0SEND_F0@0 after 0"}), "PyTorch's CSV cannot hold `after` (rank 0: 0SEND_F0)");
  EXPECT_EQ(written({"0F0 !"}), "PyTorch's CSV cannot hold blocking instructions (rank 0: 0F0)");
  EXPECT_EQ(written({"0F0", "0R0"}), "PyTorch's CSV cannot hold 0R0 in this dialect");
  EXPECT_EQ(written({"0F0", "0RECV_F0<1@0"}),
            "PyTorch's CSV cannot hold 0RECV_F0<1, whose other end is no neighbour");
  EXPECT_EQ(written({"0F0", "1B0"}),
            "PyTorch's CSV cannot hold a pipeline that does not follow from its cells: stage 1 stands in row "
            "1 too");
  EXPECT_EQ(
      written({}),
      "PyTorch's CSV cannot hold a pipeline that does not follow from its cells: the file names no stage 0");
}

TEST(ScheduleFromCsv, TakesNoNumberThatIsNone) {
  for (const std::string cell : {"00F0", "0F00", "01F0", "0F01", "F0", "0", "-1F0", "0F-1", "0F0F0", "0F0 1",
                                 "0f0", "2147483648F0", "0F2147483648", "99999999999F0"}) {
    EXPECT_TRUE(read_error(schedule("0F0," + cell + "\n")).starts_with("a/f.csv:1:2: not an action")) << cell;
  }
  // Of nine and ten digits.
  for (const std::string stage : {"999999999", "1000000000", "2147483647"}) {
    EXPECT_TRUE(
        read_error(schedule("0F0," + stage + "F0\n")).starts_with("a/f.csv: the file names no stage 1"))
        << read_error(schedule("0F0," + stage + "F0\n"));
  }
}

TEST(CsvHasCommunication, LooksForTransfersAndCollectives) {
  EXPECT_FALSE(csv_has_communication("0F0,,(0F1;0B0)OVERLAP_F_B\n"));
  EXPECT_FALSE(csv_has_communication(""));
  EXPECT_FALSE(csv_has_communication("0RESHARD,0FOO,\"x"));
  EXPECT_TRUE(csv_has_communication("0F0\n1F0, 1SEND_B0\n"));
  EXPECT_TRUE(csv_has_communication("0UNSHARD\n"));
}

}  // namespace
}  // namespace ppsim
