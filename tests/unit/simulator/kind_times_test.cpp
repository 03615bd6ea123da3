#include "ppsim/simulator/metrics/kind_times.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "support/hand_program.hpp"
#include "support/programs.hpp"

namespace ppsim::test {
namespace {

Span span(Nanoseconds start, Nanoseconds end) { return {{start, 0}, {end, 0}}; }

TEST(KindTimes, SumsWhatIsCompleteInBothRuns) {
  const Program program =
      HandProgram{.pipeline = chain_spec(1, 1, 2), .rows = {{"0F0", "0F1", "0B0", "0B1"}}}.build();
  const TimedTrace measured{.spans = {span(5, 15), span(15, 27), span(27, 50), span(-1, -1)}};
  const TimedTrace simulated{.spans = {span(0, 10), span(10, 20), span(20, 40), span(40, 60)}};
  const std::vector<KindTimes> expected = {{OpKind::forward, 2, 22, 20}, {OpKind::backward, 1, 23, 20}};
  EXPECT_EQ(compare_kinds(program, measured, simulated), expected);
  EXPECT_EQ(trace_span(measured), 45);
  EXPECT_EQ(trace_span(simulated), 60);
}

TEST(KindTimes, AGroupIsOfItsFirstMembersKindAndAPairOfItsOwn) {
  const Program program = HandProgram{.pipeline = chain_spec(2, 2, 2),
                                      .communicators = communicators({{0, 1}}),
                                      .rows = {{"{0SEND_F0@0 0RECV_B0@0}"}, {"(1F1;1B0)OVERLAP_F_B"}}}
                              .build();
  const TimedTrace trace{.spans = {span(0, 3), span(0, 4)}};
  const std::vector<KindTimes> expected = {{OpKind::overlap, 1, 4, 4}, {OpKind::send_forward, 1, 3, 3}};
  EXPECT_EQ(compare_kinds(program, trace, trace), expected);
}

TEST(KindTimes, SumsStayWithinTheirRange) {
  constexpr Nanoseconds kMax = std::numeric_limits<Nanoseconds>::max();
  const Program program = HandProgram{.pipeline = chain_spec(1, 1, 2), .rows = {{"0F0", "0F1"}}}.build();
  const TimedTrace trace{.spans = {span(0, kMax), span(0, kMax)}};
  EXPECT_EQ(compare_kinds(program, trace, trace).front().measured, kMax);
}

TEST(KindTimes, NothingThatHappenedTakesNoTime) { EXPECT_EQ(trace_span({.spans = {span(-1, -1)}}), 0); }

}  // namespace
}  // namespace ppsim::test
