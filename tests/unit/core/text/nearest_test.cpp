#include "ppsim/core/text/nearest.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "ppsim/core/text/number_text.hpp"

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

struct Named {
  std::string name;
};

TEST(UnknownName, NamesAllThatAreKnown) {
  const std::array<Named, 2> presets = {Named{"zb-h1"}, Named{"zb-v"}};
  EXPECT_EQ(joined(names_in(presets)), "zb-h1, zb-v");
  EXPECT_EQ(joined(names_in(presets), "|"), "zb-h1|zb-v");
  EXPECT_EQ(joined(std::vector<std::string>()), "");
  const Error error = unknown_name("unknown schedule", "zbv", names_in(presets));
  EXPECT_EQ(error.code, ErrorCode::bad_argument);
  EXPECT_EQ(error.message, "unknown schedule (did you mean \"zb-v\"?)");
  EXPECT_EQ(error.place.found, "zbv");
  EXPECT_EQ(error.place.expected, "one of zb-h1, zb-v");
  EXPECT_EQ(unknown_name("unknown schedule", "x", names_in(presets), "").place.expected, "zb-h1, zb-v");
}

TEST(NumberText, IsANumberAndNothingElse) {
  EXPECT_EQ(parse_number<int>("-12"), -12);
  EXPECT_EQ(parse_number<double>("2.5e1"), 25.0);
  for (const char* text : {"", " 1", "1 ", "+1", "1.5", "x", "2147483648"})
    EXPECT_EQ(parse_number<int>(text), std::nullopt) << text;
  EXPECT_EQ(parse_count("0"), 0);
  EXPECT_EQ(parse_count("-1"), std::nullopt);
}

TEST(NumberText, IsTakenOffTheStart) {
  std::string_view text = "12__5";
  EXPECT_EQ(take_leading_number<int>(text), 12);
  EXPECT_EQ(text, "__5");
  EXPECT_EQ(take_leading_number<int>(text), std::nullopt);
  EXPECT_EQ(text, "__5");
}

}  // namespace
}  // namespace ppsim
