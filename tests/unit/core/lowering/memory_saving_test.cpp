#include "ppsim/core/lowering/memory_saving.hpp"

#include <gtest/gtest.h>

#include <sstream>

namespace ppsim {
namespace {

template <class Choice>
std::string text(const Choice& choice) {
  std::ostringstream out;
  out << choice;
  return out.str();
}

TEST(StageRecompute, ReadsWhatItWrites) {
  for (const char* name : {"none", "selective", "full", "stages=0:full", "stages=0:full,3:selective"}) {
    const auto recompute = recompute_from_text(name);
    ASSERT_TRUE(recompute.has_value()) << name;
    EXPECT_EQ(text(*recompute), name);
  }
}

TEST(StageRecompute, AStageAloneRecomputesInFull) {
  const StageRecompute recompute = recompute_from_text("stages=1,4:selective").value();
  EXPECT_EQ(recompute(StageId(0)), Recompute::none);
  EXPECT_EQ(recompute(StageId(1)), Recompute::full);
  EXPECT_EQ(recompute(StageId(4)), Recompute::selective);
  EXPECT_EQ(StageRecompute(Recompute::full)(StageId(7)), Recompute::full);
}

TEST(StageRecompute, StagesThatRecomputeNothingAreNotNamed) {
  EXPECT_EQ(StageRecompute({{StageId(0), Recompute::none}}), StageRecompute());
}

TEST(StageRecompute, OtherTextIsRefused) {
  for (const char* name :
       {"", "some", "stages=", "stages=a", "stages=0,0", "stages=-1", "stages=0:some", "stages=0:"})
    EXPECT_FALSE(recompute_from_text(name).has_value()) << name;
}

TEST(Offload, ReadsWhatItWrites) {
  for (const char* name : {"none", "all", "half", "25%", "stages=0,1"}) {
    const auto offload = offload_from_text(name);
    ASSERT_TRUE(offload.has_value()) << name;
    EXPECT_EQ(text(*offload), name);
  }
  EXPECT_EQ(offload_from_text("50%"), offload_from_text("half"));
  EXPECT_EQ(offload_from_text("100%"), offload_from_text("all"));
}

TEST(Offload, OtherTextIsRefused) {
  for (const char* name : {"", "most", "0%", "101%", "-1%", "%", "stages=", "stages=0,0", "stages=x"})
    EXPECT_FALSE(offload_from_text(name).has_value()) << name;
}

}  // namespace
}  // namespace ppsim
