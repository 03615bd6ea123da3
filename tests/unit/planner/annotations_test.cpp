#include "ppsim/planner/annotations.hpp"

#include <gtest/gtest.h>

namespace ppsim {
namespace {

constexpr const char* kText = "0F0,0SEND_F0,0F1\r\n1RECV_F0,1F0\n";

TEST(Annotations, AnErrorPointsAtItsCell) {
  const Error error = {ErrorCode::bad_file,
                       "no action",
                       {.file = "a.csv", .row = 1, .column = 2, .found = "0SEND_F0", .expected = "0F1"}};
  const Annotation annotation = annotation_of(error, "a.csv", kText);
  EXPECT_EQ(annotation.row, 1);
  EXPECT_EQ(annotation.first_column, 5);
  EXPECT_EQ(annotation.last_column, 12);
  EXPECT_EQ(annotation.message, "no action (found 0SEND_F0, expected 0F1), cell 2 of the row");
}

TEST(Annotations, AColumnOfAnotherFileIsACharacter) {
  const Annotation annotation =
      annotation_of({ErrorCode::bad_file, "no JSON", {.row = 3, .column = 7}}, "a.json", "");
  EXPECT_EQ(annotation.row, 3);
  EXPECT_EQ(annotation.first_column, 7);
}

TEST(Annotations, ACellThatIsNotInTheFileLeavesItsRow) {
  const Error error = {ErrorCode::bad_file, "wrong", {.row = 2, .column = 9}};
  EXPECT_EQ(annotation_of(error, "a.csv", kText).first_column, 0);
  EXPECT_EQ(annotation_of(error, "a.csv", "").row, 2);
  EXPECT_EQ(annotation_of({ErrorCode::io, "no such file"}, "a.csv", "").row, 0);
}

TEST(Annotations, EachCellOfACounterexampleHasOne) {
  const std::vector<std::string> lines = {
      "rank 0: 0SEND_F0>1 waits for rank 1: 1RECV_F0 (a transfer begins when both ends have started)",
      "rank 1: 1RECV_F0 waits for rank 1: 1F0 (is later)", "rank 1: 1SEND_B0 is missing", "and more"};
  const auto annotations = annotations_of("deadlock_free is refuted", lines, "a.csv", kText);
  ASSERT_EQ(annotations.size(), 3U);
  EXPECT_EQ(annotations[0].row, 1);
  EXPECT_EQ(annotations[0].first_column, 5);
  EXPECT_EQ(annotations[0].message, lines[0] + "\n" + lines[1] + "\n" + lines[2] + "\n" + lines[3]);
  EXPECT_EQ(annotations[1].row, 2);
  EXPECT_EQ(annotations[1].first_column, 1);
  EXPECT_EQ(annotations[1].last_column, 8);
  EXPECT_EQ(annotations[1].message, lines[1]);
  EXPECT_EQ(annotations[2].row, 2);
  EXPECT_EQ(annotations[2].first_column, 0);
}

TEST(Annotations, WhatNamesNoCellIsAboutTheFile) {
  const std::vector<std::string> lines = {"too much memory"};
  const auto annotations = annotations_of("memory is refuted", lines, "a.csv", kText);
  ASSERT_EQ(annotations.size(), 1U);
  EXPECT_EQ(annotations_of("t", std::vector<std::string>{"rank 0: 0F0 is doubled"}, "job.toml", "")[0].row,
            0);
  EXPECT_EQ(github_command(annotations[0]), "::error file=a.csv,title=memory is refuted::too much memory");
}

TEST(Annotations, WhatIsNoFileHasNone) {
  EXPECT_EQ(github_command({.title = "memory is refuted", .message = "too much"}),
            "::error title=memory is refuted::too much");
}

TEST(Annotations, CommandsAreEscaped) {
  const Annotation annotation = {"dir,1/a:b.csv", 2, 3, 4, "100 %", "first\nsecond, 5 %: 6"};
  EXPECT_EQ(
      github_command(annotation),
      "::error file=dir%2C1/a%3Ab.csv,line=2,col=3,endColumn=4,title=100 %25::first%0Asecond, 5 %25: 6");
}

}  // namespace
}  // namespace ppsim
