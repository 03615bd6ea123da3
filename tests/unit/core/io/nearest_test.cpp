#include "ppsim/core/ir/nearest.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace ppsim {
namespace {

/// The suggested name, without the words around it.
std::string meant(std::string_view name, const std::vector<std::string_view>& known) {
  const std::string text = suggestion(name, known);
  const std::size_t begin = text.find('"');
  return begin == std::string::npos ? "" : text.substr(begin + 1, text.rfind('"') - begin - 1);
}

TEST(Suggestion, ForgivesCaseAndSeparators) {
  EXPECT_EQ(meant("ZB-V", {"zb-h1", "zb-v"}), "zb-v");
  EXPECT_EQ(meant("zbv", {"zb-h1", "zb-v"}), "zb-v");
  EXPECT_EQ(meant("deadlock-free", {"matched", "deadlock_free"}), "deadlock_free");
}

TEST(Suggestion, CompletesWhatWasBegun) {
  EXPECT_EQ(meant("interleaved", {"interleaved-zb", "interleaved-1f1b"}), "interleaved-zb");
  EXPECT_EQ(meant("h100", {"dgx-a100", "azure-nd96isr-h100-v5", "dgx-h100"}), "dgx-h100");
}

TEST(Suggestion, FindsNamesWithinClassesOfPyTorch) {
  EXPECT_EQ(meant("ScheduleInterleaved1F1B", {"1f1b", "interleaved-1f1b", "zb-v"}), "interleaved-1f1b");
  EXPECT_EQ(meant("ScheduleZBVZeroBubble", {"1f1b", "zb-v"}), "zb-v");
  EXPECT_EQ(meant("ScheduleDualPipeV", {"dualpipe", "dualpipe-v"}), "dualpipe-v");
}

TEST(Suggestion, FindsNamesWhoseInitialsAreWrittenOut) {
  const std::vector<std::string_view> known = {"interleaved-1f1b", "zb-h1", "zb-greedy", "interleaved-zb",
                                               "zb-v"};
  for (const char* name :
       {"ScheduleInterleavedZeroBubble", "InterleavedZeroBubble", "interleaved-zero-bubble"})
    EXPECT_EQ(meant(name, known), "interleaved-zb") << name;
  EXPECT_EQ(meant("zero-bubble-h1", known), "zb-h1");
  EXPECT_EQ(meant("ZeroBubbleV", known), "zb-v");
  EXPECT_EQ(meant("BubbleZeroInterleaved", known), "");
  EXPECT_EQ(meant("--zero-bubble", {"--zb"}), "");
}

TEST(Suggestion, PrefersLettersThatWereLeftOut) {
  EXPECT_EQ(meant("llama3-405b", {"llama3-70b", "llama3.1-405b"}), "llama3.1-405b");
  EXPECT_EQ(meant("simulat", {"simulate"}), "simulate");
  EXPECT_EQ(meant("1f2b", {"gpipe", "1f1b"}), "1f1b");
}

TEST(Suggestion, SaysNothingOfWhatIsFarOff) {
  EXPECT_EQ(meant("frobnicate", {"simulate", "verify"}), "");
  EXPECT_EQ(meant("--replicas", {"--ranks", "--report"}), "");
  EXPECT_EQ(meant("x", {"xyz"}), "xyz");
}

}  // namespace
}  // namespace ppsim
