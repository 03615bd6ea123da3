#include "ppsim/planner/kineto.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "ppsim/core/io/text.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/schedules/registry.hpp"
#include "ppsim/simulator/engine/simulate.hpp"

namespace ppsim {
namespace {

std::string event(const std::string& name, double start_us, double duration_us,
                  const std::string& category = "user_annotation") {
  std::ostringstream text;
  text.precision(17);
  text << R"({"ph": "X", "cat": ")" << category << R"(", "name": ")" << name << R"(", "ts": )" << start_us
       << R"(, "dur": )" << duration_us << R"(, "args": {"name": "PP:9F9", "ts": 1, "list": [{"dur": 2}]}})";
  return text.str();
}

std::string document(const std::string& events, const std::string& before = "") {
  return R"({"schemaVersion": 1, "ts": 4, )" + before +
         R"("other": [{"name": "PP:8F8", "ph": "X", "ts": 0}],)" +
         R"("traceEvents": [{"ph": "M", "name": "process_name"}, )" + events + R"(], "name": "trace.json"})";
}

TEST(ReadKineto, FindsRangesOfComputation) {
  const std::string text = document(event("PP:0F1", 20.5, 1.25) + "," + event("PP:0F0", 10, 2) + "," +
                                    event("PP:0SEND_F0", 12, 1) + "," + event("## step", 0, 90) + "," +
                                    event("PP:(0F2;0B1)OVERLAP_F_B", 30, 3));
  const auto ranges = read_kineto(text, "0.json").value();
  EXPECT_FALSE(ranges.on_device);
  const std::vector<KinetoRange> expected = {
      {"0F0", 10'000, 12'000}, {"0F1", 20'500, 21'750}, {"(0F2;0B1)OVERLAP_F_B", 30'000, 33'000}};
  EXPECT_EQ(ranges.ranges, expected);
}

TEST(ReadKineto, RangesOfTheGpuGoBeforeThoseOfTheHost) {
  const std::string text =
      document(event("PP:0F0", 1, 2) + "," + event("PP:0F0", 5, 6, "gpu_user_annotation"));
  const auto ranges = read_kineto(text, "0.json").value();
  EXPECT_TRUE(ranges.on_device);
  ASSERT_EQ(ranges.ranges.size(), 1U);
  EXPECT_EQ(ranges.ranges[0].start, 5'000);
}

TEST(ReadKineto, AddsTheBaseOfTheClockAndTakesAListOfEvents) {
  const std::string base = R"("baseTimeNanoseconds": 1700000000000000001, )";
  EXPECT_EQ(read_kineto(document(event("PP:0F0", 1, 2), base), "0.json")->ranges[0].start,
            1'700'000'000'000'001'001);
  EXPECT_EQ(read_kineto("[" + event("PP:0F0", 1, 2) + "]", "0.json")->ranges.size(), 1U);
}

TEST(ReadKineto, RefusesWhatIsNoTrace) {
  for (const std::string& text : {std::string("0F0,0B0"), std::string("{}"), std::string("[1, 2]"),
                                  document(event("aten::mm", 1, 2)), std::string("\x1f\x8b\x08")}) {
    const auto ranges = read_kineto(text, "0.json");
    ASSERT_FALSE(ranges.has_value()) << text;
    EXPECT_EQ(ranges.error().code, ErrorCode::bad_file);
    EXPECT_EQ(ranges.error().place.file, "0.json");
  }
  EXPECT_EQ(read_kineto("\x1f\x8b\x08", "0.json").error().place.expected, "gunzip 0.json first");
}

/// 1F1B on two ranks, each microbatch of which takes 1 ms forward and 2 ms backward, transfers 0.1 ms.
class KinetoOfTwoRanks : public testing::Test {
 protected:
  KinetoOfTwoRanks() {
    for (std::size_t i = 0; i < program_.size(); ++i) {
      const InstructionId id(static_cast<std::int32_t>(i));
      const OpKind kind = program_.actions(id)[0].kind;
      if (kind != OpKind::forward && kind != OpKind::backward) continue;
      files_[program_.rank_of(id).index()].ranges.push_back(
          {actions_text(program_, id), simulated_.spans[id].start.time, simulated_.spans[id].end.time});
    }
  }

  void move(std::size_t rank, Nanoseconds by) {
    for (KinetoRange& range : files_[rank].ranges) range = {range.cell, range.start + by, range.end + by};
  }
  void expect_refused(const std::string& message) const {
    const auto step = step_of_kineto(files_, program_);
    ASSERT_FALSE(step.has_value());
    EXPECT_EQ(step.error().code, ErrorCode::bad_file);
    EXPECT_NE(to_string(step.error()).find(message), std::string::npos) << step.error();
  }

  Program program_ = lower(generate("1f1b", {.ranks = 2, .microbatches = 3}).value(), {}).value();
  TimedTrace simulated_ = simulate_program(program_, {}, unit_cost_table({.c = 0.1})).value().value();
  std::vector<KinetoRanges> files_ = {{"0.json", true, {}}, {"1.json", true, {}}};
};

TEST_F(KinetoOfTwoRanks, OneClockIsLeftAsItIs) {
  const auto step = step_of_kineto(files_, program_).value();
  EXPECT_TRUE(step.shared_clock);
  EXPECT_EQ(step.clocks[RankId(1)].offset, 0);
  for (std::size_t i = 0; i < program_.size(); ++i) {
    const InstructionId id(static_cast<std::int32_t>(i));
    const bool computes =
        program_.actions(id)[0].kind == OpKind::forward || program_.actions(id)[0].kind == OpKind::backward;
    EXPECT_EQ(step.trace.spans[id].end.time, computes ? simulated_.spans[id].end.time : -1) << i;
  }
}

TEST_F(KinetoOfTwoRanks, ClocksAreAlignedInTheMiddleOfWhatMessagesAllow) {
  move(1, 5'000'000'000);
  const auto step = step_of_kineto(files_, program_).value();
  EXPECT_FALSE(step.shared_clock);
  // Each way a message takes 0.1 ms at least.
  EXPECT_EQ(step.clocks[RankId(1)], (RankClock{-5'000'000'000, 100'000}));
  EXPECT_EQ(step.clocks[RankId(0)], (RankClock{0, 0}));
}

TEST_F(KinetoOfTwoRanks, RangesOfTheHostMayContainTheWait) {
  files_[0].on_device = files_[1].on_device = false;
  move(0, 7'000'000'000);
  const auto step = step_of_kineto(files_, program_).value();
  const RankClock clock = step.clocks[RankId(1)];
  EXPECT_LE(std::abs(clock.offset - 7'000'000'000), *clock.error);
  EXPECT_EQ(*clock.error, (1'100'000 + 2'100'000) / 2);
}

TEST_F(KinetoOfTwoRanks, TheNewestStepIsTaken) {
  std::vector<KinetoRange> older = files_[0].ranges;
  for (KinetoRange& range : older) range = {range.cell, range.start - 20'000'000, range.end - 20'000'000};
  files_[0].ranges.insert(files_[0].ranges.begin(), older.begin(), older.end());
  EXPECT_EQ(step_of_kineto(files_, program_)->clocks[RankId(1)].offset, 0);
}

TEST_F(KinetoOfTwoRanks, OrderOfTheFilesDoesNotMatter) {
  std::swap(files_[0], files_[1]);
  EXPECT_TRUE(step_of_kineto(files_, program_)->shared_clock);
}

TEST_F(KinetoOfTwoRanks, WhatIsNoStepIsRefused) {
  const auto good = files_;
  files_[1].ranges.pop_back();
  expect_refused("1.json: the trace has not all of a step (found no PP:1B2");
  files_ = good;
  std::swap(files_[0].ranges[0].cell, files_[0].ranges[1].cell);
  expect_refused("0.json: the newest ranges of the trace are not one step");
  files_ = {good[0], good[0]};
  expect_refused("two traces are of one rank");
  files_ = {good[0]};
  expect_refused("no trace of rank 1");
  files_ = good;
  files_[0].ranges[0].cell = "0F7";
  expect_refused("another schedule (found PP:0F7");
  files_[0].ranges[1].cell = "1F1";
  files_[0].ranges[0].cell = "0F0";
  expect_refused("stages of two ranks");
}

TEST_F(KinetoOfTwoRanks, MessagesThatNoClocksExplainAreRefused) {
  // Between its forward and its backward a microbatch is away from rank 0 for less than rank 1 has it.
  for (KinetoRange& range : files_[1].ranges) range = {range.cell, range.start * 100, range.end * 100};
  expect_refused("no clocks explain the messages");
}

TEST(StepOfKineto, MessagesOneWayGiveNoError) {
  const Program program =
      lower(generate("forward-only", {.ranks = 2, .microbatches = 1}).value(), {}).value();
  const std::vector<KinetoRanges> files = {{"0", true, {{"0F0", 1000, 2000}}},
                                           {"1", true, {{"1F0", 500, 1500}}}};
  const auto step = step_of_kineto(files, program).value();
  EXPECT_EQ(step.clocks[RankId(1)], (RankClock{1500, std::nullopt}));
}

}  // namespace
}  // namespace ppsim
