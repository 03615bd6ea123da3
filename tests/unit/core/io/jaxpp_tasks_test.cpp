#include "ppsim/core/io/jaxpp_tasks.hpp"

#include <gtest/gtest.h>

#include "support/closed_forms.hpp"
#include "support/row_text.hpp"

namespace ppsim::test {
namespace {

Schedule read(std::string_view text) { return schedule_from_jaxpp_tasks(text, "tasks.json").value(); }

Error refusal(std::string_view text) {
  const auto schedule = schedule_from_jaxpp_tasks(text, "tasks.json");
  return schedule ? Error{} : schedule.error();
}

constexpr const char* kTwoRanks = R"json([
  ["fwd_0__0","fwd_0__1",null,"bwd_0__0","bwd_0__1"],
  [null,"FusedTask(fwd_1__0, bwd_1__0)","FusedTask(fwd_1__1, bwd_1__1)",null,null]
]
)json";

TEST(JaxppTasks, AreRowsOfSteps) {
  const Schedule schedule = read(kTwoRanks);
  EXPECT_EQ(schedule.pipeline().ranks(), 2);
  EXPECT_EQ(schedule.pipeline().stages(), 2);
  EXPECT_EQ(schedule.pipeline().microbatches(), 2);
  EXPECT_EQ(schedule.row(RankId(0))[2], Cell());
  EXPECT_EQ(schedule.row(RankId(0))[3], Cell(make_action(OpKind::backward, 0, 0)));
  EXPECT_EQ(schedule.row(RankId(1))[1], Cell(make_action(OpKind::forward, 1, 0)));
  EXPECT_EQ(schedule.row(RankId(1))[2], Cell(make_action(OpKind::backward, 1, 0)));
}

TEST(JaxppTasks, FuseOneCellAndPairsOfCells) {
  const Schedule schedule = read(R"json([["fwd_0__0", "fwd_0__1", "bwdA_0__0", "bwdW_0__0",
      "FusedTask(bwdA_0__1, bwdW_0__1)"],
     ["fwd_1__0", "FusedTask(fwd_1__1, bwdA_1__0, bwdW_1__0)", "bwdA_1__1", "bwdW_1__1"]])json");
  EXPECT_EQ(row_text(schedule, 0), "0F0 0F1 0I0 0W0 0B1");
  EXPECT_EQ(row_text(schedule, 1), "1F0 (1F1;1B0)OVERLAP_F_B 1I1 1W1");
  EXPECT_EQ(row_text(read("[[\"FusedTask(fwd_0__0, bwd_0__0)\"]]"), 0), "0F0 0B0");
}

TEST(JaxppTasks, AreWrittenAsTheyWereRead) {
  const char* const split = R"json([
  ["fwd_0__0","fwd_0__1","bwdA_0__0","bwdW_0__0","FusedTask(bwdA_0__1, bwdW_0__1)"],
  ["fwd_1__0","FusedTask(fwd_1__1, bwdA_1__0, bwdW_1__0)",null,"bwdA_1__1","bwdW_1__1"]
]
)json";
  const char* const chunks = R"json([
  ["fwd_0__0","fwd_2__0","bwd_2__0","bwd_0__0"],
  ["fwd_1__0","FusedTask(fwd_3__0, bwd_3__0)","bwd_1__0"]
]
)json";
  for (const char* text : {split, chunks}) EXPECT_EQ(to_jaxpp_tasks(read(text)).value(), text);
  for (const char* name :
       {"gpipe", "1f1b", "eager-1f1b", "interleaved-1f1b", "kimi-k2", "zb-h1", "dualpipe-v"}) {
    const Schedule schedule = generated(name, {.ranks = 4, .microbatches = 8});
    EXPECT_EQ(read(to_jaxpp_tasks(schedule).value()), schedule) << name;
  }
}

TEST(JaxppTasks, AreRefusedWithTheirPlace) {
  EXPECT_EQ(refusal(R"json([["fwd_0__0"], ["bwd_0__0x"]])json").place.found, "\"bwd_0__0x\"");
  for (const char* text : {"[[1]]", "[[\"0F0\"]]", "[[\"FusedTask()\"]]",
                           "[[\"FusedTask(fwd_0__0, fwd_0__1)\"]]", "[[\"fwd_-1__0\"]]", "[[\"fwd_0_0\"]]",
                           "[[\"fwd_0__99999999999\"]]", "[3]", "[[\"FusedTask(fwd_0__0, bwd_0__0\"]]"}) {
    EXPECT_EQ(refusal(text).code, ErrorCode::bad_file) << text;
  }
  EXPECT_NE(refusal(R"json([["fwd_1000000__0"]])json").message.find("larger than there are tasks"),
            std::string::npos);
  EXPECT_NE(refusal(R"json([["fwd_1__0", "bwd_1__0"]])json").message.find("without tasks"),
            std::string::npos);
  // As JaxPP's InterleavedGPipe, whose second half has no B of the first chunk.
  EXPECT_NE(to_string(refusal(R"json([["fwd_0__0", "fwd_2__0", "bwd_2__0"],
                                  ["fwd_1__0", "fwd_3__0", "bwd_3__0", "bwd_1__0"]])json"))
                .find("0B0 is missing"),
            std::string::npos);
}

TEST(JaxppTasks, HaveNothingElse) {
  for (const char* name : {"terapipe", "chimera", "bpipe", "pipedream"}) {
    ScheduleParameters parameters{.ranks = 4, .microbatches = 8};
    if (std::string_view(name) == "terapipe") parameters.slices = 2;
    EXPECT_FALSE(to_jaxpp_tasks(generated(name, parameters)).has_value()) << name;
  }
}

}  // namespace
}  // namespace ppsim::test
