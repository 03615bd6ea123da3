#include "ppsim/core/execution/timed_trace.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "support/hand_program.hpp"

namespace ppsim::test {
namespace {

/// Two microbatches on one stage; the B of the first overlaps nothing.
Program two_microbatches() {
  return HandProgram{.pipeline = chain_spec(1, 1, 2), .rows = {{"0F0", "0F1", "0B0", "0B1"}}}.build();
}

TimedTrace trace_of(const std::vector<Span>& spans) {
  return {.spans = TimedTrace::Spans(LargeVector<Span>(spans.begin(), spans.end()))};
}

Span span(Nanoseconds start, Nanoseconds end) { return {{start, 0}, {end, 0}}; }

MemoryProfile replay(const Program& program, const TimedTrace& trace, const SizeTable& sizes, int rank = 0) {
  const TensorTable table = tensor_table(program);
  return replay_memory(program, trace, table, tensor_sizes(table, sizes))[RankId(rank)];
}

TEST(ReplayMemory, AllocatesAtStartsAndFreesAtCompletions) {
  const TimedTrace trace = trace_of({span(0, 10), span(10, 20), span(25, 45), span(45, 60)});
  const MemoryProfile profile = replay(two_microbatches(), trace, activation_size_table(5));
  EXPECT_EQ(profile.peak_bytes, 10);
  EXPECT_EQ(profile.peak_at, (Instant{10, 0}));
  const std::vector<MemoryPoint> expected = {{{0, 0}, 5}, {{10, 0}, 10}, {{45, 0}, 5}, {{60, 0}, 0}};
  EXPECT_EQ(profile.points, expected);
}

TEST(ReplayMemory, FreesComeBeforeAllocationsOfTheSameRound) {
  // Workspaces only: each action frees its own when the next one starts.
  SizeTable sizes;
  sizes.set({.kind = TensorKind::workspace, .op = OpKind::forward}, 8);
  sizes.set({.kind = TensorKind::workspace, .op = OpKind::backward}, 6);
  const TimedTrace trace = trace_of({span(0, 10), span(10, 20), span(20, 30), span(30, 40)});
  const MemoryProfile profile = replay(two_microbatches(), trace, sizes);
  EXPECT_EQ(profile.peak_bytes, 8);
  const std::vector<MemoryPoint> expected = {{{0, 0}, 8}, {{20, 0}, 6}, {{40, 0}, 0}};
  EXPECT_EQ(profile.points, expected);
}

TEST(ReplayMemory, EveryRoundOfAnInstantCounts) {
  // All of zero duration: each action starts in the round in which the one before completes.
  const TimedTrace trace = trace_of({{{0, 0}, {0, 1}}, {{0, 1}, {0, 2}}, {{0, 2}, {0, 3}}, {{0, 3}, {0, 4}}});
  const MemoryProfile profile = replay(two_microbatches(), trace, activation_size_table(5));
  EXPECT_EQ(profile.peak_bytes, 10);
  EXPECT_EQ(profile.peak_at, (Instant{0, 1}));
  const std::vector<MemoryPoint> expected = {{{0, 0}, 5}, {{0, 1}, 10}, {{0, 3}, 5}, {{0, 4}, 0}};
  EXPECT_EQ(profile.points, expected);
}

TEST(ReplayMemory, WhatExistsFromTheStartCountsFromTheStart) {
  SizeTable sizes;
  sizes.set({.kind = TensorKind::parameters}, 100);
  sizes.set({.kind = TensorKind::boundary_input}, 3);
  const TimedTrace trace = trace_of({span(5, 10), span(10, 20), span(20, 30), span(30, 40)});
  const MemoryProfile profile = replay(two_microbatches(), trace, sizes);
  EXPECT_EQ(profile.peak_bytes, 106);
  EXPECT_EQ(profile.peak_at, Instant{});
  const std::vector<MemoryPoint> expected = {{{0, 0}, 106}, {{30, 0}, 103}, {{40, 0}, 100}};
  EXPECT_EQ(profile.points, expected);
}

TEST(ReplayMemory, WhatDidNotRunAllocatesNothingAndFreesNothing) {
  const Span never{{-1, 0}, {-1, 0}};
  const TimedTrace trace = trace_of({span(0, 10), never, never, never});
  const MemoryProfile profile = replay(two_microbatches(), trace, activation_size_table(5));
  EXPECT_EQ(profile.peak_bytes, 5);
  EXPECT_EQ(profile.points, (std::vector<MemoryPoint>{{{0, 0}, 5}}));
}

TEST(ReplayMemory, TheEarliestWriterAllocates) {
  // 2 is fed by 0 and 1 over different communicators; here the later one in the list arrives first.
  HandProgram hand{.pipeline = chain_spec(3, 3, 1),
                   .communicators = communicators({{0, 2}, {1, 2}, {0, 1}}),
                   .rows = {{"0F0", "0SEND_F0>1@2", "0SEND_F0>2@0"},
                            {"1RECV_F0@2", "1F0", "1SEND_F0@1"},
                            {"2RECV_F0<0@0", "2RECV_F0<1@1", "2F0"}}};
  hand.pipeline.edges = {{StageId(0), StageId(1)}, {StageId(0), StageId(2)}, {StageId(1), StageId(2)}};
  const Program program = hand.build();
  SizeTable sizes;
  sizes.set({.kind = TensorKind::boundary_input, .subject = 2}, 9);
  TimedTrace trace = trace_of(std::vector<Span>(program.size(), span(0, 1)));
  const auto receives = at(program, 2, {0, 1, 2});
  trace.spans[receives[0]] = span(30, 40);
  trace.spans[receives[1]] = span(7, 8);
  trace.spans[receives[2]] = span(40, 50);
  const MemoryProfile profile = replay(program, trace, sizes, 2);
  const std::vector<MemoryPoint> expected = {{{0, 0}, 0}, {{7, 0}, 9}, {{50, 0}, 0}};
  EXPECT_EQ(profile.points, expected);
}

TEST(ReplayMemory, OneProfileForEachRank) {
  const Program program = HandProgram{.pipeline = chain_spec(2, 2, 1),
                                      .communicators = communicators({{0, 1}}),
                                      .rows = {{"0F0", "0SEND_F0@0"}, {"1RECV_F0@0", "1F0"}}}
                              .build();
  const TimedTrace trace = trace_of({span(0, 10), span(10, 12), span(0, 12), span(12, 20)});
  EXPECT_EQ(replay(program, trace, activation_size_table(5), 0).points.back(), (MemoryPoint{{10, 0}, 0}));
  EXPECT_EQ(replay(program, trace, activation_size_table(5), 1).points.back(), (MemoryPoint{{20, 0}, 0}));
}

TEST(TraceCsv, OneLineForEachInstruction) {
  const Program program =
      HandProgram{.pipeline = chain_spec(2, 2, 2),
                  .communicators = communicators({{0, 1}, {0, 1}}),
                  .rows = {{"0F0", "{0SEND_F0@0 0RECV_B0@1} after 0"}, {"(1F0;1B1)OVERLAP_F_B"}}}
          .build();
  const TimedTrace trace = trace_of({span(0, 10), span(10, 12), {{-1, 0}, {-1, 0}}});
  std::ostringstream out;
  write_trace_csv(out, program, trace);
  EXPECT_EQ(out.str(),
            "rank,queue,index,instruction,start_ns,end_ns\n"
            "0,compute,0,0F0,0,10\n"
            "0,c0+c1,1,{0SEND_F0 0RECV_B0},10,12\n"
            "1,compute,0,(1F0;1B1)OVERLAP_F_B,-1,-1\n");
}

TEST(TraceCsv, QuotesNamesThatNeedIt) {
  HandProgram hand{.pipeline = chain_spec(2, 2, 1),
                   .communicators = communicators({{0, 1}}),
                   .rows = {{"0SEND_F0@0"}, {}}};
  hand.communicators[0].name = "a,\"b\"";
  const Program program = hand.build();
  std::ostringstream out;
  write_trace_csv(out, program, trace_of({span(1, 2)}));
  EXPECT_EQ(out.str(), "rank,queue,index,instruction,start_ns,end_ns\n0,\"a,\"\"b\"\"\",0,0SEND_F0,1,2\n");
}

}  // namespace
}  // namespace ppsim::test
