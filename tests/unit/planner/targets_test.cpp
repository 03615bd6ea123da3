#include "ppsim/planner/targets.hpp"

#include <gtest/gtest.h>

#include "ppsim/core/io/text.hpp"
#include "ppsim/core/ir/inference.hpp"
#include "ppsim/core/ir/transports.hpp"
#include "ppsim/planner/files.hpp"
#include "ppsim/verifier/verify.hpp"
#include "support/closed_forms.hpp"
#include "support/tests_folder.hpp"

// Files that releases of PyTorch load, and those that are written for them
// (torch/distributed/pipelining/schedules.py of 2.15.0 and 2.14.1; the old alphabet is that before PR
// 138886).

namespace ppsim {
namespace {

Target named(std::string_view name) { return target_named(name).value(); }

const Target kNew = named("torch-2.15");
const Target kOld = named("torch-2.14");
const Target kLegacy = named("legacy");

Schedule zb_h1() { return test::generated("zb-h1", {.ranks = 2, .microbatches = 4}); }

LoweringOptions ordered(std::string_view name, const Target& target) {
  LoweringOptions options;
  EXPECT_TRUE(set_order(options, name).has_value());
  options.communicators = target.communicators.front();
  return options;
}

/// The first error of reading a text as a target does.
Error error_of(const Target& target, std::string_view text) {
  const auto ir = ir_from_text(text, "file.csv", {target.dialect, target.communicators.front(), &target});
  if (!ir) return ir.error();
  const auto runs = check_runs(target, *ir);
  return runs ? Error{} : runs.error();
}

void expect_refusal(const Target& target, std::string_view text, std::string_view why) {
  const Error error = error_of(target, text);
  EXPECT_EQ(error.code, ErrorCode::refused) << error;
  EXPECT_NE(to_string(error).find(why), std::string::npos) << error;
}

constexpr const char* kWaited =
    "0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD,0WAIT_REDUCE_GRAD,0WAIT_SEND_F0\r\n"
    "1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD,1WAIT_REDUCE_GRAD,1WAIT_SEND_B0\r\n";
constexpr const char* kUnwaited =
    "0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD\r\n1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD\r\n";

TEST(Targets, LoadWhatTheyWrite) {
  EXPECT_EQ(error_of(kNew, kWaited), Error{});
  EXPECT_EQ(error_of(kOld, kUnwaited), Error{});
  EXPECT_EQ(error_of(kLegacy, "0F0,0SEND_F0,0RECV_B0,0BW0\r\n1RECV_F0,1F0,1BW0,1SEND_B0\r\n"), Error{});
}

/// Computation, transfers and reductions of each rank, in issue order.
std::vector<std::vector<std::string>> orders(const Program& program) {
  std::vector<std::vector<std::string>> rows;
  for (const RankId rank : program.pipeline().rank_ids()) {
    std::vector<std::string>& row = rows.emplace_back();
    for (const InstructionId id : program.ids_of(rank)) {
      for (const Action& action : program.actions(id))
        if (action.kind != OpKind::unshard && action.kind != OpKind::reshard)
          row.push_back(action_text(program.pipeline(), action));
    }
  }
  return rows;
}

/// The file is what PyTorch 2.15.0 dumps as compute_comms for ScheduleInterleaved1F1B with 2 ranks, 4
/// microbatches and 4 stages a rank. Its UNSHARD and RESHARD take turns in the sweep over the ranks.
TEST(Targets, LowerAScheduleInTheOrderOfPyTorch) {
  const std::string text =
      read_text_file(test::tests_folder() / "data/torch_2.15_interleaved_1f1b.csv").value();
  const Ir dumped = ir_from_text(text, "file.csv", {kNew.dialect, kNew.communicators.front(), &kNew}).value();
  const Ir schedule = test::generated("interleaved-1f1b", {.ranks = 2, .microbatches = 4, .chunks = 4});
  LoweringOptions options = own_lowering(kNew, kNew.communicators.front(), schedule);
  const auto expected = orders(std::get<Program>(dumped));
  EXPECT_EQ(orders(lower(std::get<Schedule>(schedule), options).value()), expected);
  options.unshard_turns = false;
  EXPECT_NE(orders(lower(std::get<Schedule>(schedule), options).value()), expected);
  options.unshard = true;
  EXPECT_EQ(orders(lower(std::get<Schedule>(schedule), options).value()), expected);
}

TEST(Targets, RefuseTextThatTheyWouldNotLoad) {
  expect_refusal(kNew, std::string("\xef\xbb\xbf") + kWaited, "byte order mark");
  expect_refusal(kNew, std::string(kWaited) + "\r\n", "empty row");
  expect_refusal(kOld, "0F0,0B0\r\n,\r\n", "empty row");
  expect_refusal(kNew, kUnwaited, "0WAIT_SEND_F0 after it");
  expect_refusal(kOld, kWaited, "it knows no WAIT cells");
  expect_refusal(kLegacy, kUnwaited, "");
}

TEST(Targets, RefuseAReductionWithoutItsWait) {
  expect_refusal(kNew, "0F0,0B0,0REDUCE_GRAD\r\n", "0WAIT_REDUCE_GRAD after it");
  expect_refusal(kNew, "0F0,1F0,1B0,1REDUCE_GRAD,0B0,0REDUCE_GRAD,1WAIT_REDUCE_GRAD,0WAIT_REDUCE_GRAD\r\n",
                 "at most one reduction");
}

TEST(Targets, RefuseWhatDoesNotTrain) {
  expect_refusal(kNew, "0F0\r\n1F0\r\n", "stage 0 with 0 B, 0 I and 0 W");
}

TEST(Targets, RefuseOtherGradients) {
  const char* const without =
      "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\r\n1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,"
      "1SEND_B1\r\n";
  expect_refusal(kOld, without, "2 times as large");
  EXPECT_NE(
      gradient_warning(std::get<Program>(ir_from_text(without, "file.csv", {}).value())).find("2 times"),
      std::string::npos);
  EXPECT_EQ(gradient_warning(std::get<Program>(ir_from_text(kUnwaited, "file.csv", {}).value())), "");
}

TEST(Targets, HaveCommunicatorsThatAReleaseCanUse) {
  EXPECT_EQ(communicators_for(kNew, {}).value(), CommunicatorPolicy::per_pair);
  EXPECT_EQ(communicators_for(kNew, CommunicatorPolicy::per_edge).value(), CommunicatorPolicy::per_edge);
  EXPECT_EQ(communicators_for(kOld, CommunicatorPolicy::per_edge).error().place.expected,
            "per-pair, per-rank");
  EXPECT_EQ(communicators_for(kLegacy, {}).value(), CommunicatorPolicy::per_rank);
}

TEST(Targets, ThatAreUnknownAreNamed) {
  EXPECT_EQ(target_named("torch-2.16").error().place.expected, "torch-2.15, torch-2.14, legacy, jaxpp-0.9.2");
}

TEST(Targets, GetWhatTheyNeedFromLowering) {
  const Program program = lower_for(kNew, zb_h1(), ordered("timed", kNew)).value();
  const std::string text = text_for(kNew, program, "file.csv").value();
  EXPECT_EQ(error_of(kNew, text), Error{}) << text;
  EXPECT_NE(text.find("0REDUCE_GRAD"), std::string::npos);
  EXPECT_NE(text.find("1WAIT_SEND_B3"), std::string::npos);
}

/// Schedules of the registry with sizes that PyTorch's CSV holds.
const char* const kSchedules[] = {"gpipe", "1f1b", "interleaved-1f1b", "looped-bfs", "zb-h1",
                                  "zb-h2", "zb-v", "dualpipe-v",       "v-half",     "interleaved-zb"};

TEST(Targets, HaveProvedFilesInEveryOrder) {
  for (const Target& target : {kNew, kOld, kLegacy}) {
    for (const char* name : kSchedules) {
      const Schedule schedule = test::generated(name, {.ranks = 4, .microbatches = 8});
      for (const char* order : {"timed", "global", "just-in-time", "early:1", "early:3"}) {
        const auto program = lower_for(target, schedule, ordered(order, target));
        if (!target.overlaps && std::string_view(name) == "dualpipe-v") {
          EXPECT_FALSE(program.has_value());
          continue;
        }
        ASSERT_TRUE(program.has_value()) << target.name << name << order << program.error();
        const auto text = text_for(target, *program, "file.csv");
        ASSERT_TRUE(text.has_value()) << target.name << name << order << text.error();
        EXPECT_EQ(error_of(target, *text), Error{}) << target.name << name << order;
      }
    }
  }
}

/// The most messages of a rank that are received and not used yet, as they stand in its row.
int max_waiting(const Program& program) {
  int most = 0;
  for (int r = 0; r < program.pipeline().ranks(); ++r) {
    int waiting = 0;
    for (std::int32_t i = program.first(RankId(r)).value(); i < program.last(RankId(r)).value(); ++i) {
      for (const Action& action : program.actions(InstructionId(i))) {
        const bool first = action.subject == 0;
        const bool last = action.subject == program.pipeline().stages() - 1;
        if (is_receive(action.kind)) ++waiting;
        if (action.kind == OpKind::forward && !first) --waiting;
        if (gives_input_gradient(action.kind) && !last) --waiting;
      }
      most = std::max(most, waiting);
    }
  }
  return most;
}

TEST(DeferredTransfers, LeaveNoMessageWaiting) {
  const Schedule schedule = test::generated("interleaved-1f1b", {.ranks = 4, .microbatches = 8});
  const auto most = [&](const char* order) {
    return max_waiting(lower_for(kNew, schedule, ordered(order, kNew)).value());
  };
  EXPECT_EQ(most("just-in-time"), 1);
  EXPECT_LE(most("early:1"), 2);
  EXPECT_GT(most("global"), 2);
}

TEST(DeferredTransfers, AreOfProgramsThatRun) {
  const auto hangs =
      ir_from_text("0F0,0RECV_B0,0SEND_F0,0B0\r\n1RECV_F0,1F0,1B0,1SEND_B0\r\n", "file.csv", {}).value();
  EXPECT_EQ(defer_transfers(std::get<Program>(hangs), {.waits = true}).error().code, ErrorCode::bad_argument);
}

TEST(Misread, NamesAnOldAlphabet) {
  const auto old = ir_from_text("0F0,0B0,0W0\r\n1F0,1B0,1W0\r\n", "file.csv", {});
  ASSERT_FALSE(old.has_value());
  EXPECT_NE(to_string(old.error()).find("--dialect legacy"), std::string::npos) << old.error();
  const auto lowered =
      ir_from_text("0F0,0SEND_F0,0RECV_B0,0B0,0W0\r\n1RECV_F0,1F0,1B0,1SEND_B0,1W0\r\n", "file.csv", {});
  ASSERT_FALSE(lowered.has_value());
  EXPECT_EQ(lowered.error().place.expected, "--dialect legacy");
}

TEST(Misread, NamesAListOfPython) {
  for (const char* text : {"[[0F0, 0B0, None], [1F0, 1B0]]", "{0: [0F0, 0B0], 1: [1F0]}", "[[None, 0F0]]",
                           "[[(0F1;1B0)OVERLAP_F_B]]"}) {
    const auto ir = ir_from_text(text, "file.csv", {});
    ASSERT_FALSE(ir.has_value());
    EXPECT_NE(ir.error().message.find("get_schedule_ops"), std::string::npos) << ir.error();
  }
  EXPECT_EQ(ir_from_text("[1, 2]", "f", {}).error().message.find("get_schedule_ops"), std::string::npos);
}

TEST(Misread, NamesAFileThatWasCutOff) {
  const auto cut = ir_from_text("0F0,0F1,0B0,0B1\r\n1F0,1B0,1F1,1B", "file.csv", {});
  ASSERT_FALSE(cut.has_value());
  EXPECT_NE(cut.error().message.find("cut off"), std::string::npos) << cut.error();
  EXPECT_TRUE(ir_from_text("0F0,0B0\r\n1F0,1B0", "file.csv", {}).has_value());
}

}  // namespace
}  // namespace ppsim
