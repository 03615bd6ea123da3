#include "ppsim/core/io/trace_csv.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "support/hand_program.hpp"
#include "support/programs.hpp"

namespace ppsim::test {
namespace {

const char* const kHeader = "rank,queue,index,instruction,start_ns,end_ns\n";

/// "row:column found, expected" of an error; "" where there is none.
template <class T>
std::string where(const Expected<T>& result) {
  if (result) return "";
  EXPECT_EQ(result.error().code, ErrorCode::bad_file);
  const ErrorPlace& place = result.error().place;
  EXPECT_EQ(place.file, "t.csv");
  return std::to_string(place.row) + ":" + std::to_string(place.column) + " " + place.found + ", " +
         place.expected;
}

std::string line_error(const std::string& line) {
  return where(trace_rows_from_csv(kHeader + line, "t.csv"));
}

TEST(TraceRows, AreReadAsTheyAreWritten) {
  const auto rows = trace_rows_from_csv(
      std::string(kHeader) + "0,compute,0,0F0,0,10\r\n2,\"p2p\",7,\"{0SEND_F3 0RECV_B1}\",5,-1\n", "t.csv");
  ASSERT_TRUE(rows.has_value());
  const std::vector<TraceRow> expected = {{2, RankId(0), "compute", 0, "0F0", 0, 10},
                                          {3, RankId(2), "p2p", 7, "{0SEND_F3 0RECV_B1}", 5, -1}};
  EXPECT_EQ(*rows, expected);
}

TEST(TraceRows, NeedTheHeader) {
  EXPECT_EQ(where(trace_rows_from_csv("", "t.csv")), "1:1 nothing, rank");
  EXPECT_EQ(where(trace_rows_from_csv("rank,queue,index,instruction,start,end_ns\n", "t.csv")),
            "1:5 start, start_ns");
  EXPECT_EQ(where(trace_rows_from_csv("rank,queue,index,instruction,start_ns,end_ns,more\n", "t.csv")),
            "1:7 more, the end of the line");
}

TEST(TraceRows, HaveSixCells) {
  EXPECT_EQ(line_error("0,compute,0,0F0,0\n"), "2:6 5 cells, 6 cells");
  EXPECT_EQ(line_error("0,compute,0,0F0,0,1,2\n"), "2:6 7 cells, 6 cells");
  EXPECT_EQ(line_error("\n"), "2:1 0 cells, 6 cells");
}

TEST(TraceRows, NumbersAreWholeCells) {
  EXPECT_EQ(line_error("x,compute,0,0F0,0,1"), "2:1 x, an integer in [0, 2147483647]");
  EXPECT_EQ(line_error("2147483648,compute,0,0F0,0,1"), "2:1 2147483648, an integer in [0, 2147483647]");
  EXPECT_EQ(line_error("0,compute,-1,0F0,0,1"), "2:3 -1, an integer in [0, 2147483647]");
  EXPECT_EQ(line_error("0,compute, 1,0F0,0,1"), "2:3  1, an integer in [0, 2147483647]");
  EXPECT_EQ(line_error("0,compute,0,0F0,+1,1"), "2:5 +1, an integer in [-1, 9223372036854775807]");
  EXPECT_EQ(line_error("0,compute,0,0F0,0,1.5"), "2:6 1.5, an integer in [-1, 9223372036854775807]");
  EXPECT_EQ(line_error("0,compute,0,0F0,0,9223372036854775808"),
            "2:6 9223372036854775808, an integer in [-1, 9223372036854775807]");
  EXPECT_EQ(line_error("0,compute,0,0F0,0,9223372036854775807"), "");
}

TEST(TraceRows, EndsAreNotBeforeStarts) {
  EXPECT_EQ(line_error("0,compute,0,0F0,5,4"), "2:6 4, -1 or at least 5");
  EXPECT_EQ(line_error("0,compute,0,0F0,-1,4"), "2:6 4, -1, as it did not start");
  EXPECT_EQ(line_error("0,compute,0,0F0,5,5"), "");
  EXPECT_EQ(line_error("0,compute,0,0F0,-1,-1"), "");
}

/// Two ranks, one microbatch: four instructions on each.
class TraceOfAProgram : public testing::Test {
 protected:
  [[nodiscard]] std::string written(const TimedTrace& trace) const {
    std::ostringstream text;
    write_trace_csv(text, program_, trace);
    return text.str();
  }
  /// The error of the file with its n-th line (from 1, without the header) replaced by `line`.
  [[nodiscard]] std::string with_line(int n, const std::string& line) const {
    std::istringstream lines(written(trace_));
    std::string text;
    std::string each;
    for (int i = 0; std::getline(lines, each); ++i) text += i == n ? line : each + "\n";
    return where(trace_from_csv(text, "t.csv", program_));
  }
  [[nodiscard]] std::string broken(InstructionId id, Span span) const {
    TimedTrace trace = trace_;
    trace.spans[id] = span;
    std::string text;
    for (const Violation& violation : trace_violations({program_, rendezvous()}, trace)) {
      text += (text.empty() ? "" : "; ") + violation.message;
    }
    return text;
  }
  static Span span(Nanoseconds start, Nanoseconds end) { return {{start, 0}, {end, 0}}; }

  /// 0: 0F0, 1: 0SEND_F0, 2: 0RECV_B0, 3: 0B0, 4: 1RECV_F0, 5: 1F0, 6: 1B0, 7: 1SEND_B0.
  const Program program_ = two_rank_step();
  const TimedTrace trace_{.spans = {span(0, 10), span(10, 15), span(12, 45), span(45, 60), span(0, 15),
                                    span(15, 25), span(25, 40), span(40, 45)}};
};

TEST_F(TraceOfAProgram, ReadsWhatIsWritten) {
  const auto read = trace_from_csv(written(trace_), "t.csv", program_);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(*read, trace_);
}

TEST_F(TraceOfAProgram, RowsMayStandInAnyOrder) {
  std::istringstream lines(written(trace_));
  std::string header;
  std::getline(lines, header);
  std::string text;
  for (std::string line; std::getline(lines, line);) text = line + "\n" + text;
  EXPECT_EQ(trace_from_csv(header + "\n" + text, "t.csv", program_).value(), trace_);
}

TEST_F(TraceOfAProgram, InstructionsAreTheProgramsOwn) {
  EXPECT_EQ(with_line(4, "2,compute,3,0B0,45,60\n"), "5:1 2, one of 2 ranks");
  EXPECT_EQ(with_line(4, "0,compute,4,0B0,45,60\n"), "5:3 4, one of 4 instructions of the rank");
  EXPECT_EQ(with_line(4, "0,compute,3,0B1,45,60\n"), "5:4 0B1, 0B0");
  EXPECT_EQ(with_line(4, "0,copy,3,0B0,45,60\n"), "5:2 copy, compute");
}

TEST_F(TraceOfAProgram, EveryInstructionIsThereOnce) {
  EXPECT_EQ(with_line(4, "0,compute,0,0F0,45,60\n"), "5:3 0, each instruction once");
  EXPECT_EQ(with_line(4, ""), "9:1 the end of the file, rank 0, instruction 3: 0B0");
  EXPECT_EQ(where(trace_from_csv(kHeader, "t.csv", program_)),
            "2:1 the end of the file, rank 0, instruction 0: 0F0");
}

TEST_F(TraceOfAProgram, WhatCanHaveHappenedBreaksNoRule) {
  EXPECT_EQ(trace_violations({program_, rendezvous()}, trace_), std::vector<Violation>());
  EXPECT_EQ(broken(InstructionId(1), span(11, 13)), "");  // out before it was received: buffered
  EXPECT_EQ(broken(InstructionId(3), span(45, -1)), "");
  EXPECT_EQ(broken(InstructionId(3), span(-1, -1)), "");
}

TEST_F(TraceOfAProgram, NothingStartsBeforeWhatItWaitsFor) {
  EXPECT_EQ(broken(InstructionId(3), span(44, 60)),
            "rank 0: 0B0 starts at 44 ns, before rank 0: 0RECV_B0 completes at 45 ns");
  EXPECT_EQ(broken(InstructionId(2), span(12, -1)),
            "rank 0: 0B0 starts at 45 ns, and rank 0: 0RECV_B0 never completes");
}

TEST_F(TraceOfAProgram, NothingIsReceivedBeforeItsSendStarts) {
  EXPECT_EQ(broken(InstructionId(4), span(0, 9)),
            "rank 1: 1RECV_F0 completes at 9 ns, before rank 0: 0SEND_F0 starts at 10 ns");
}

TEST(TraceViolations, LaunchesWaitWhereTheyAlwaysDo) {
  HandProgram hand{.pipeline = chain_spec(2, 2, 1),
                   .communicators = communicators({{0, 1}, {0, 1}}),
                   .rows = {{"0COLL@0", "1COLL@1"}, {"0COLL@0", "1COLL@1"}}};
  const std::vector<RankId> both = {RankId(0), RankId(1)};
  hand.pipeline.collectives = {Collective{"first", both}, Collective{"second", both}};
  const Program program = hand.build();
  const Span first{{0, 0}, {5, 0}};
  const Span second{{1, 0}, {6, 0}};  // starts before the first is complete
  const auto count = [&](const TransportCapabilities& capabilities) {
    return trace_violations({program, capabilities}, {.spans = {first, second, first, second}}).size();
  };
  EXPECT_EQ(count(rendezvous()), 0U);
  EXPECT_EQ(count({.launches = {LaunchOrder::completion}}), 0U);
  EXPECT_EQ(count(always({LaunchOrder::completion})), 2U);
}

TEST(TraceViolations, ACollectiveEndsAfterAllHaveStarted) {
  HandProgram hand{.pipeline = chain_spec(2, 2, 1),
                   .communicators = communicators({{0, 1}}),
                   .rows = {{"0COLL@0"}, {"0COLL@0"}}};
  hand.pipeline.collectives = {Collective{"barrier", {RankId(0), RankId(1)}}};
  const Program program = hand.build();
  const auto found = [&](Span first, Span second) {
    const auto violations = trace_violations({program, rendezvous()}, {.spans = {first, second}});
    return violations.empty() ? "" : violations.front().message;
  };
  EXPECT_EQ(found({{0, 0}, {5, 0}}, {{5, 0}, {6, 0}}), "");
  EXPECT_EQ(found({{0, 0}, {4, 0}}, {{5, 0}, {6, 0}}),
            "rank 0: 0COLL completes at 4 ns, before rank 1: 0COLL starts at 5 ns");
  EXPECT_EQ(found({{0, 0}, {4, 0}}, {{-1, 0}, {-1, 0}}),
            "rank 0: 0COLL completes at 4 ns, and rank 1: 0COLL never starts");
}

}  // namespace
}  // namespace ppsim::test
