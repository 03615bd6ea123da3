#include "ppsim/verifier/deadlock/deadlock.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "ppsim/verifier/verify.hpp"
#include "support/generated.hpp"
#include "support/hand_program.hpp"
#include "support/programs.hpp"

namespace ppsim::test {
namespace {

TransportCapabilities credits(int n) { return {.credits = n}; }

VerifyReport ask(const Program& program, Property property, TransportCapabilities capabilities = {}) {
  VerifyOptions options;
  options.properties = {property};
  options.capabilities = capabilities;
  options.cross_check = !capabilities.residency;
  return verify(program, options);
}

std::vector<std::string> cycle_lines(const Deadlock& deadlock) {
  std::vector<std::string> lines;
  for (const Wait& wait : deadlock.cycle) lines.push_back(to_string(wait));
  return lines;
}

std::vector<std::string> culprit_lines(const Deadlock& deadlock) {
  std::vector<std::string> lines;
  for (const Wait& culprit : deadlock.culprits) lines.push_back(to_string(culprit));
  return lines;
}

/// The explanation of a deadlock that must be there.
Deadlock deadlock_of(const Program& program, TransportCapabilities capabilities = {}) {
  const VerifyReport report = ask(program, Property::deadlock_free, capabilities);
  return std::get<Deadlock>(std::get<Refuted>(report.results.at(0).verdict).counterexample);
}

bool is_deadlock_free(const Program& program, TransportCapabilities capabilities = {}) {
  return ask(program, Property::deadlock_free, capabilities).all_proved();
}

using Lines = std::vector<std::string>;

TEST(DeadlockFree, DeferredReceivesHangOnOneQueuePerRank) {
  const Deadlock deadlock = deadlock_of(deferred_receives(false));
  EXPECT_EQ(
      cycle_lines(deadlock),
      (Lines{"rank 0: 0SEND_F1 waits for rank 1: 1RECV_F1 (a transfer begins when both ends have started)",
             "rank 1: 1RECV_F1 waits for rank 1: 1SEND_B0 (is later on queue world)",
             "rank 1: 1SEND_B0 waits for rank 0: 0RECV_B0 (a transfer begins when both ends have started)",
             "rank 0: 0RECV_B0 waits for rank 0: 0SEND_F1 (is later on queue world)"}));
  EXPECT_TRUE(deadlock.culprits.empty());
  EXPECT_EQ(deadlock.blocked, 10u);
}

TEST(DeadlockFree, DeferredReceivesRunOnDirectedEdges) {
  EXPECT_TRUE(is_deadlock_free(deferred_receives(true)));
}

TEST(DeadlockFree, OneCreditHidesTheHangAndIsNoted) {
  const VerifyReport report = ask(deferred_receives(false), Property::deadlock_free, credits(1));
  EXPECT_TRUE(report.all_proved());
  ASSERT_EQ(report.results[0].notes.size(), 3u);
  EXPECT_EQ(
      report.results[0].notes[1],
      "safe only by buffering: under rendezvous rank 0: 0SEND_F1 waits for rank 1: 1RECV_F1 (a transfer "
      "begins when both ends have started)");
  EXPECT_EQ(
      report.results[0].notes[2],
      "Credits(1) will do, and so will a transport that does no more than buffer 1 message from rank 0 to "
      "rank 1 on communicator world");
  EXPECT_EQ(ask(deferred_receives(true), Property::deadlock_free, credits(1)).results[0].notes.size(), 1u)
      << "only the note of the cross-check";
}

/// The second of three stages in 1F1B order sends up before it takes the next one in, on one queue.
Program ungrouped_middle_rank(bool grouped) {
  HandProgram p{chain_spec(2, 2, 2), communicators({{0, 1}})};
  p.rows = {{"0F0", "0SEND_F0@0", "0F1", "0SEND_F1@0", "0RECV_B0@0", "0B0", "0RECV_B1@0", "0B1"},
            {"1RECV_F0@0", "1F0", "1B0", "1SEND_B0@0", "1RECV_F1@0", "1F1", "1B1", "1SEND_B1@0"}};
  if (grouped) {
    p.rows = {{"0F0", "0SEND_F0@0", "0F1", "{0SEND_F1@0 0RECV_B0@0}", "0B0", "0RECV_B1@0", "0B1"},
              {"1RECV_F0@0", "1F0", "1B0", "{1SEND_B0@0 1RECV_F1@0}", "1F1", "1B1", "1SEND_B1@0"}};
  }
  return p.build();
}

TEST(DeadlockFree, UngroupedOneFOneBHangsAndAGroupMendsIt) {
  EXPECT_EQ(deadlock_of(ungrouped_middle_rank(false)).cycle.size(), 4u);
  EXPECT_TRUE(is_deadlock_free(ungrouped_middle_rank(true)));
}

TEST(DeadlockFree, CreditsRunOut) {
  HandProgram p{chain_spec(2, 2, 3), communicators({{0, 1}, {0, 1}})};
  p.rows = {{"0F0", "0SEND_F0@0", "0F1", "0SEND_F1@0", "0F2", "0SEND_F2@0", "0RECV_B0@1", "0B0 after 5",
             "0RECV_B1@1", "0B1", "0RECV_B2@1", "0B2"},
            {"1RECV_F0@0", "1F0", "1B0", "1SEND_B0@1 !", "1RECV_F1@0 after 3", "1F1", "1B1", "1SEND_B1@1",
             "1RECV_F2@0", "1F2", "1B2", "1SEND_B2@1"}};
  p.rows[0][6] += " after 5";  // rank 0 takes no gradient before its third activation is out
  const Program program = p.build();
  // Rank 1 receives its second activation only once its first gradient is taken.
  EXPECT_EQ(
      cycle_lines(deadlock_of(program)),
      (Lines{"rank 0: 0SEND_F1 waits for rank 1: 1RECV_F1 (a transfer begins when both ends have started)",
             "rank 1: 1RECV_F1 waits for rank 1: 1SEND_B0 (is listed after it)",
             "rank 1: 1SEND_B0 waits for rank 0: 0RECV_B0 (a transfer begins when both ends have started)",
             "rank 0: 0RECV_B0 waits for rank 0: 0SEND_F2 (is listed after it)",
             "rank 0: 0SEND_F2 waits for rank 0: 0SEND_F1 (is later on queue c0)"}));
  EXPECT_TRUE(is_deadlock_free(program, credits(1)));
}

TEST(DeadlockFree, NamesTheReceiveThatWouldFreeACredit) {
  HandProgram p{chain_spec(2, 2, 4), communicators({{0, 1}, {0, 1}})};
  p.rows = {{"0F0", "0SEND_F0@0", "0F1", "0SEND_F1@0", "0F2", "0SEND_F2@0", "0F3", "0SEND_F3@0",
             "0RECV_B0@1 after 7", "0B0"},
            {"1RECV_F0@0", "1F0", "1B0", "1SEND_B0@1", "1RECV_F1@0", "1F1", "1B1", "1SEND_B1@1",
             "1RECV_F2@0 after 7", "1F2"}};
  EXPECT_EQ(cycle_lines(deadlock_of(p.build(), credits(1))),
            (Lines{"rank 0: 0SEND_F3 waits for rank 1: 1RECV_F2 (no credit is left before it receives)",
                   "rank 1: 1RECV_F2 waits for rank 1: 1SEND_B1 (is listed after it)",
                   "rank 1: 1SEND_B1 waits for rank 0: 0RECV_B0 (no credit is left before it receives)",
                   "rank 0: 0RECV_B0 waits for rank 0: 0SEND_F3 (is listed after it)"}));
}

TEST(DeadlockFree, ReportsAShortestOfSeveralCycles) {
  PipelineSpec spec = chain_spec(4, 4, 5);
  spec.routes = {{StageId(0), StageId(1)}, {StageId(2), StageId(3)}};
  const RouteId a(0);
  const RouteId b(1);
  spec.route = {a, a, a, b, b};
  HandProgram p{spec, communicators({{0, 1}, {0, 1}, {2, 3}})};
  // Ranks 0 and 1 wait for each other in five steps, ranks 2 and 3 in four.
  p.rows = {{"0F0", "0SEND_F0@0", "0F1", "0SEND_F1@0", "0F2", "0SEND_F2@0", "0RECV_B0@1 after 5", "0B0"},
            {"1RECV_F0@0", "1F0", "1B0", "1SEND_B0@1", "1RECV_F1@0 after 3", "1F1", "1RECV_F2@0", "1F2"},
            {"2F3", "2SEND_F3@2", "2F4", "2SEND_F4@2", "2RECV_B3@2", "2B3"},
            {"3RECV_F3@2", "3F3", "3B3", "3SEND_B3@2", "3RECV_F4@2", "3F4"}};
  const std::vector<Wait> cycle = deadlock_of(p.build()).cycle;
  ASSERT_EQ(cycle.size(), 4u);
  EXPECT_EQ(cycle[0].who.rank, RankId(2));
}

TEST(DeadlockFree, NamesAnAbsentCounterpart) {
  HandProgram p{chain_spec(2, 2, 1), communicators({{0, 1}, {0, 1}})};
  p.rows = {{"0F0", "0SEND_F0@0", "0RECV_B0@1", "0B0"}, {"1F0", "1B0", "1SEND_B0@1"}};
  const Deadlock deadlock = deadlock_of(p.build());
  EXPECT_TRUE(deadlock.cycle.empty());
  EXPECT_EQ(culprit_lines(deadlock),
            (Lines{"rank 0: 0SEND_F0 never completes (0SEND_F0 meets no RECV on its channel)",
                   "rank 1: 1F0 never completes (1F0 needs 1RECV_F0<0, which is not on the rank)"}));
}

TEST(DeadlockFree, NamesAnAbsentMemberOfACollective) {
  PipelineSpec spec = chain_spec(2, 2, 1);
  spec.collectives = {{"norm", {RankId(0), RankId(1)}}};
  HandProgram p{spec, communicators({{0, 1}, {0, 1}, {0, 1}})};
  p.rows = {{"0F0", "0SEND_F0@0", "0RECV_B0@1", "0B0", "0COLL@2"},
            {"1RECV_F0@0", "1F0", "1B0", "1SEND_B0@1"}};
  EXPECT_EQ(culprit_lines(deadlock_of(p.build())),
            (Lines{"rank 0: 0COLL never completes (only 1 of 2 members of communicator c2 take part)"}));
}

TEST(DeadlockFree, AHostThatBlocksCanHang) {
  HandProgram p{chain_spec(2, 2, 1), communicators({{0, 1}, {0, 1}})};
  p.rows = {{"0RECV_B0@1 !", "0F0", "0SEND_F0@0", "0B0"}, {"1RECV_F0@0", "1F0", "1B0", "1SEND_B0@1"}};
  const Program program = p.build();
  const Deadlock deadlock = deadlock_of(program);
  ASSERT_FALSE(deadlock.cycle.empty());
  EXPECT_EQ(deadlock.cycle.back().why, "the host waits for it before it issues more");
  EXPECT_TRUE(recheck_cycle(program, build_execution_graph(program, {}), deadlock.cycle).has_value());
}

TEST(DeadlockFree, OneSidedTransportsWaitForTheSender) {
  HandProgram p{chain_spec(2, 2, 1), communicators({{0, 1}, {0, 1}})};
  p.rows = {{"0RECV_B0@1 !", "0F0", "0SEND_F0@0", "0B0"}, {"1RECV_F0@0", "1F0", "1B0", "1SEND_B0@1"}};
  const Deadlock deadlock = deadlock_of(p.build(), credits(4));
  ASSERT_FALSE(deadlock.cycle.empty());
  EXPECT_EQ(deadlock.cycle.front().why, "nothing arrives before it sends");
}

TEST(DeadlockFree, EndsAtAMismatch) {
  HandProgram p{chain_spec(2, 2, 2), communicators({{0, 1}, {0, 1}})};
  p.rows = {{"0F0", "0SEND_F0@0", "0F1", "0SEND_F1@0"}, {"1RECV_F1@0", "1RECV_F0@0", "1F0", "1F1"}};
  const Program program = p.build();
  EXPECT_EQ(std::get<Unknown>(ask(program, Property::deadlock_free).results.at(0).verdict).reason,
            "meaning stops at a mismatch, see matched");
  const VerifyReport matched = ask(program, Property::matched);
  EXPECT_EQ(std::get<std::vector<Violation>>(std::get<Refuted>(matched.results.at(0).verdict).counterexample)
                .size(),
            2u);
}

TEST(DeadlockFree, ResidencyIsExploredWhereItBinds) {
  const Program program = deferred_receives(true);
  EXPECT_EQ(ask(program, Property::deadlock_free, {.residency = 2}).results.at(0).method, "graph");
  const VerifyReport tight = ask(program, Property::deadlock_free, {.residency = 1});
  EXPECT_EQ(tight.results.at(0).method, "exploration");
  VerifyOptions options;
  options.properties = {Property::deadlock_free};
  options.capabilities.residency = 1;
  options.state_limit = 1;
  EXPECT_TRUE(std::holds_alternative<Unknown>(verify(program, options).results.at(0).verdict));
}

TEST(DeadlockFree, AHangByResidencyNamesWhatHoldsThePlaces) {
  constexpr int kPlaces = 2;
  const Program program = programs_of("1f1b", {.ranks = 4})(4).value();
  const VerifyReport report = ask(program, Property::deadlock_free, {.residency = kPlaces});
  const auto& hang = std::get<ResidencyHang>(std::get<Refuted>(report.results.at(0).verdict).counterexample);
  EXPECT_EQ(hang.residency, kPlaces);
  ASSERT_FALSE(hang.resident.empty());
  EXPECT_EQ(hang.resident.size() % kPlaces, 0U);
  for (std::size_t i = 0; i < hang.resident.size(); i += kPlaces)
    EXPECT_EQ(hang.resident[i].rank, hang.resident[i + 1].rank);
  // The target of each wait waits itself.
  ASSERT_FALSE(hang.waits.empty());
  for (const Wait& wait : hang.waits) {
    EXPECT_TRUE(std::ranges::any_of(hang.waits, [&](const Wait& w) { return w.who == wait.waits_for; }))
        << to_string(wait);
  }
  // Nothing but a place is missing for the first, and whatever holds one is named.
  const Wait& first = hang.waits.front();
  EXPECT_EQ(first.why, "none of the rank's places is free before it completes");
  for (const NamedInstruction& place : hang.resident) {
    if (place.rank != first.who.rank) continue;
    const auto is_for = [&](const Wait& w) { return w.who == first.who && w.waits_for == place; };
    EXPECT_TRUE(std::ranges::any_of(hang.waits, is_for)) << place.action;
  }
}

TEST(RecheckCycle, RefusesWhatIsNone) {
  const Program program = deferred_receives(false);
  const ExecutionGraph graph = build_execution_graph(program, {});
  const std::vector<Wait> cycle = deadlock_of(program).cycle;
  EXPECT_TRUE(recheck_cycle(program, graph, cycle).has_value());
  EXPECT_FALSE(recheck_cycle(program, graph, {}).has_value());

  std::vector<Wait> shorter(cycle.begin(), cycle.end() - 1);
  EXPECT_FALSE(recheck_cycle(program, graph, shorter).has_value()) << "does not close";
  std::vector<Wait> reversed(cycle.rbegin(), cycle.rend());
  EXPECT_FALSE(recheck_cycle(program, graph, reversed).has_value()) << "edges do not meet";
  std::vector<Wait> renamed = cycle;
  renamed[0].who.action = "0SEND_F0";
  EXPECT_FALSE(recheck_cycle(program, graph, renamed).has_value()) << "another action stands there";
  std::vector<Wait> wrong_kind = cycle;
  wrong_kind[0].reason = WaitReason::data;
  EXPECT_FALSE(recheck_cycle(program, graph, wrong_kind).has_value()) << "no wait of that kind";

  // Two ends of one transfer need each other's start to complete; that alone is no deadlock.
  const NamedInstruction send = cycle[0].who;
  const NamedInstruction receive = cycle[0].waits_for;
  const std::vector<Wait> partners = {{send, receive, WaitReason::rendezvous, ""},
                                      {receive, send, WaitReason::rendezvous, ""}};
  EXPECT_FALSE(recheck_cycle(program, graph, partners).has_value());
}

}  // namespace
}  // namespace ppsim::test
