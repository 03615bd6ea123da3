// Replayed steps: of random Programs and traces with random delays, against the trace itself and against
// simulations.

#include "ppsim/planner/effects/replay.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "ppsim/core/io/text.hpp"
#include "ppsim/core/io/trace_csv.hpp"
#include "ppsim/core/ir/transports.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/schedules/registry.hpp"
#include "ppsim/simulator/engine/simulate.hpp"
#include "ppsim/simulator/metrics/kind_times.hpp"
#include "support/random_program.hpp"

namespace ppsim {
namespace {

Schedule draw_schedule() {
  const auto name = *rc::gen::element<std::string>("1f1b", "gpipe", "zb-h1", "dualpipe-v");
  const int ranks = 2 * *rc::gen::inRange(1, 3);
  return generate(name, {.ranks = ranks, .microbatches = 2 * ranks + *rc::gen::inRange(0, 4)}).value();
}

AnalyzedProgram draw_program() {
  LoweringOptions options;
  options.optimizer = *rc::gen::arbitrary<bool>();
  options.communicators = *rc::gen::element(CommunicatorPolicy::per_edge, CommunicatorPolicy::per_rank);
  return {lower(draw_schedule(), options).value(),
          *rc::gen::arbitrary<bool>() ? rendezvous() : transport("any").value()};
}

CostTable draw_costs(const AnalyzedProgram& analyzed) {
  return test::random_costs(analyzed.program().pipeline().stages(), *rc::gen::arbitrary<std::uint64_t>());
}

/// A run with random costs: every instruction starts a little late and has its own duration.
ReplayCosts draw_replay_costs(const AnalyzedProgram& analyzed) {
  const std::size_t size = analyzed.program().size();
  ReplayCosts costs;
  for (std::size_t i = 0; i < size; ++i) {
    costs.delays.push_back(*rc::gen::inRange<Nanoseconds>(0, 20));
    costs.durations.push_back(*rc::gen::inRange<Nanoseconds>(0, 1000));
  }
  for (std::size_t i = 0; i < analyzed.timed_graph().messages.size(); ++i) costs.messages.emplace_back();
  return costs;
}

/// A run in which no SEND waits for its RECV, computed without replays: each message is out after its own
/// time, and its data arrives some time before or after that.
TimedTrace draw_eager_run(const AnalyzedProgram& analyzed) {
  const ExecutionGraph& graph = analyzed.timed_graph();
  TimedTrace trace{TimedTrace::Spans(graph.size())};
  std::vector<Nanoseconds> there(graph.messages.size(), 0);
  for (const std::uint32_t item : analyzed.timed_order().items) {
    const InstructionId id(static_cast<std::int32_t>(item / 2));
    Nanoseconds at = 0;
    if (item % 2 == 0) {
      for (const InstructionId before : graph.predecessors_of(id))
        at = std::max(at, trace.spans[before].end.time);
      trace.spans[id].start.time = at + *rc::gen::inRange<Nanoseconds>(0, 20);
      for (const std::uint32_t m : graph.messages_of(id)) {
        if (graph.messages[m].send == id)
          there[m] = trace.spans[id].start.time + *rc::gen::inRange<Nanoseconds>(0, 100);
      }
      continue;
    }
    at = trace.spans[id].start.time;
    for (const std::uint32_t m : graph.messages_of(id)) {
      if (graph.messages[m].receive == id) at = std::max(at, there[m]);
    }
    if (const std::int32_t match = graph.match_of[id.index()]; match >= 0) {
      for (const InstructionId member : graph.members_of(graph.matches[static_cast<std::size_t>(match)]))
        at = std::max(at, trace.spans[member].start.time);
    }
    trace.spans[id].end.time = at + *rc::gen::inRange<Nanoseconds>(0, 100);
  }
  return trace;
}

void assert_no_end_is_earlier(const TimedTrace& before, const TimedTrace& after) {
  for (std::size_t i = 0; i < before.spans.size(); ++i) {
    const InstructionId id(static_cast<std::int32_t>(i));
    RC_ASSERT(after.spans[id].start >= before.spans[id].start);
    RC_ASSERT(after.spans[id].end >= before.spans[id].end);
  }
}

RC_GTEST_PROP(ReplayProperty, AsItIsItIsTheTraceToTheNanosecond, ()) {
  const AnalyzedProgram analyzed = draw_program();
  const TimedTrace trace = replayed(analyzed, draw_replay_costs(analyzed));
  const TimedTrace again = replayed(analyzed, replay_costs(analyzed, trace));
  RC_ASSERT(again == trace);
}

/// On any transport: the trace is what happened.
RC_GTEST_PROP(ReplayProperty, OfEagerSendsItIsTheTraceAndNoTimeIsBelowZero, ()) {
  const AnalyzedProgram analyzed = draw_program();
  const TimedTrace trace = draw_eager_run(analyzed);
  RC_ASSERT(trace_violations(analyzed, trace).empty());
  const ReplayCosts taken = replay_costs(analyzed, trace);
  for (const Nanoseconds delay : taken.delays) RC_ASSERT(delay >= 0);
  for (const Nanoseconds duration : taken.durations) RC_ASSERT(duration >= 0);
  for (const ReplayMessage& message : taken.messages) RC_ASSERT(message.arrival >= 0);
  RC_ASSERT(replayed(analyzed, taken) == trace);
}

RC_GTEST_PROP(ReplayProperty, OfEagerSendsNothingThatIsSlowerEndsEarlier, ()) {
  const AnalyzedProgram analyzed = draw_program();
  const TimedTrace trace = draw_eager_run(analyzed);
  const auto group = *rc::gen::element<std::string>("compute", "transfers", "SEND_F", "rank:0", "link:0-1");
  ReplayCosts costs = replay_costs(analyzed, trace);
  RC_ASSERT(change(analyzed, {{cost_group_from_text(group).value(), 1.5}}, costs).has_value());
  const TimedTrace slower = replayed(analyzed, costs);
  assert_no_end_is_earlier(trace, slower);
  RC_ASSERT(change(analyzed, {{cost_group_from_text(group).value(), 0.5}}, costs).has_value());
  assert_no_end_is_earlier(replayed(analyzed, costs), slower);
}

/// With unlimited buffers no SEND waits: a change of such a trace gives the step that is simulated with
/// changed costs.
RC_GTEST_PROP(ReplayProperty, AChangeOfABufferedStepIsThatOfItsCosts, ()) {
  const int credits = *rc::gen::element(1, 2, kUnlimitedCredits);
  const AnalyzedProgram analyzed{lower(draw_schedule(), {}).value(), {.credits = credits}};
  const CostTable costs = draw_costs(analyzed);
  const OpKind kind = *rc::gen::element(OpKind::forward, OpKind::send_forward);
  CostTable changed;
  for (const auto& [key, cost] : costs.entries()) changed.set(key, key.kind == kind ? 3 * cost : cost);
  const TimedTrace before = *simulate_beside_transfers(analyzed, {costs, CostTable()}).value();
  const TimedTrace after = *simulate_beside_transfers(analyzed, {changed, CostTable()}).value();
  ReplayCosts taken = replay_costs(analyzed, before);
  RC_ASSERT(change(analyzed, {{{CostGroup::What::kind, {.kind = kind}}, 3}}, taken).has_value());
  RC_ASSERT(trace_span(replayed(analyzed, taken)) == trace_span(after));
}

/// A simulated trace has no delays, and each action takes its cost.
RC_GTEST_PROP(ReplayProperty, OfASimulationItIsTheSimulation, ()) {
  const AnalyzedProgram analyzed{lower(draw_schedule(), {}).value(), rendezvous()};
  const CostTable costs = draw_costs(analyzed);
  const TimedTrace trace = *simulate_beside_transfers(analyzed, {costs, CostTable()}).value();
  const ReplayCosts taken = replay_costs(analyzed, trace);
  for (const Nanoseconds delay : taken.delays) RC_ASSERT(delay == 0);
  RC_ASSERT(trace_span(replayed(analyzed, taken)) == trace_span(trace));
}

/// A change of the trace gives the same step as a change of the costs.
RC_GTEST_PROP(ReplayProperty, AChangeIsThatOfTheCosts, ()) {
  const AnalyzedProgram analyzed{lower(draw_schedule(), {}).value(), rendezvous()};
  const CostTable costs = draw_costs(analyzed);
  const OpKind kind = *rc::gen::element(OpKind::forward, OpKind::send_forward);
  CostTable changed;
  for (const auto& [key, cost] : costs.entries()) changed.set(key, key.kind == kind ? 3 * cost : cost);
  const TimedTrace before = *simulate_beside_transfers(analyzed, {costs, CostTable()}).value();
  const TimedTrace after = *simulate_beside_transfers(analyzed, {changed, CostTable()}).value();
  ReplayCosts taken = replay_costs(analyzed, before);
  RC_ASSERT(change(analyzed, {{{CostGroup::What::kind, {.kind = kind}}, 3}}, taken).has_value());
  RC_ASSERT(trace_span(replayed(analyzed, taken)) == trace_span(after));
}

/// A factor above 1 never makes a step shorter.
RC_GTEST_PROP(ReplayProperty, SlowerIsNeverFaster, ()) {
  const AnalyzedProgram analyzed = draw_program();
  ReplayCosts costs = draw_replay_costs(analyzed);
  const Nanoseconds before = trace_span(replayed(analyzed, costs));
  const int rank = *rc::gen::inRange(0, analyzed.program().pipeline().ranks());
  const CostGroup group = cost_group_from_text("rank:" + std::to_string(rank)).value();
  RC_ASSERT(change(analyzed, {{group, 1.5}}, costs).has_value());
  RC_ASSERT(trace_span(replayed(analyzed, costs)) >= before);
}

/// A Schedule of two ranks or more, in one of two orders, with receives as late as they may be or not.
Program draw_order(int ranks) {
  LoweringOptions options;
  options.order = *rc::gen::element(IssueOrder::timed, IssueOrder::early);
  const auto name = *rc::gen::element<std::string>("gpipe", "1f1b");
  const int microbatches = *rc::gen::inRange(1, 9);
  return lower(generate(name, {.ranks = ranks, .microbatches = microbatches}).value(), options).value();
}

/// With one cost for each class another order, of more or fewer microbatches, takes its simulated time.
RC_GTEST_PROP(ReplayProperty, AnotherOrderTakesItsOwnSimulation, ()) {
  const int ranks = *rc::gen::inRange(2, 5);
  const int credits = *rc::gen::element(0, 1, 2, kUnlimitedCredits);
  const TransportCapabilities capabilities =
      credits == 0 ? rendezvous() : TransportCapabilities{.credits = credits};
  const AnalyzedProgram from{draw_order(ranks), capabilities};
  const AnalyzedProgram to{draw_order(ranks), capabilities};
  const CostTable costs = draw_costs(from);
  const ReplayCosts taken =
      replay_costs(from, *simulate_beside_transfers(from, {costs, CostTable()}).value());
  const ReplayCosts moved = costs_in_other_order({from, taken}, to).value();
  const TimedTrace simulated = *simulate_beside_transfers(to, {costs, CostTable()}).value();
  RC_ASSERT(trace_span(replayed(to, moved)) == trace_span(simulated));
}

CostClass class_of(const AnalyzedProgram& analyzed, const Message& message) {
  return cost_class_of(analyzed.program().all_actions()[message.send_action]);
}

/// The classes of messages of which one was sent before its receiver asked for it, or at that moment where
/// another one shows that a transfer takes time.
std::set<CostClass> shown_eager(const AnalyzedProgram& analyzed, const TimedTrace& trace) {
  std::set<CostClass> before, just_then, take_time;
  for (const Message& message : analyzed.timed_graph().messages) {
    const CostClass key = class_of(analyzed, message);
    const Nanoseconds sent = trace.spans[message.send].start.time;
    const Nanoseconds end = trace.spans[message.send].end.time;
    const Nanoseconds received = trace.spans[message.receive].start.time;
    if (end < received) before.insert(key);
    if (sent < end && end == received) just_then.insert(key);
    if (sent < end && received <= sent) take_time.insert(key);
  }
  std::ranges::set_intersection(just_then, take_time, std::inserter(before, before.end()));
  return before;
}

/// Whether some SEND began before its RECV and is of none of these classes: then nobody knows if it waited.
bool is_ambiguous(const AnalyzedProgram& analyzed, const TimedTrace& trace,
                  const std::set<CostClass>& shown) {
  return std::ranges::any_of(analyzed.timed_graph().messages, [&](const Message& message) {
    return trace.spans[message.send].start.time < trace.spans[message.receive].start.time &&
           !shown.contains(class_of(analyzed, message));
  });
}

/// With unlimited buffers no SEND waits, and where a trace shows that, another order takes its simulated
/// time.
RC_GTEST_PROP(ReplayProperty, AnotherOrderOfEagerSendsTakesItsOwnSimulation, ()) {
  const int ranks = *rc::gen::inRange(2, 4);
  const AnalyzedProgram from{draw_order(ranks), rendezvous()};
  const AnalyzedProgram to{draw_order(ranks), rendezvous()};
  if (!from.finishes() || !to.finishes()) return;
  const CostTable costs = draw_costs(from);
  const auto simulated = [&](const AnalyzedProgram& order) -> TimedTrace {
    const AnalyzedProgram buffered{order.program(), {.credits = kUnlimitedCredits}};
    return *simulate_beside_transfers(buffered, {costs, CostTable()}).value();
  };
  const TimedTrace trace = simulated(from);
  const TimedTrace expected = simulated(to);
  const ReplayCosts taken = replay_costs(from, trace);
  const ReplayCosts moved = costs_in_other_order({from, taken}, to).value();
  const std::set<CostClass> shown = shown_eager(from, trace);
  if (is_ambiguous(from, trace, shown) || is_ambiguous(to, expected, shown)) return;
  RC_CLASSIFY(!shown.empty());
  RC_ASSERT(trace_span(replayed(to, moved)) == trace_span(expected));
}

AnalyzedProgram on_two_ranks(const std::string& name, int microbatches = 2) {
  LoweringOptions options;
  options.receive_buffers = 1;
  return {lower(generate(name, {.ranks = 2, .microbatches = microbatches}).value(), options).value(),
          rendezvous()};
}

/// Two microbatches through two ranks: rank 0 sends in 10 ns and computes, while rank 1 takes 1000 ns and has
/// room for one message.
class EagerReplay : public testing::Test {
 protected:
  EagerReplay() : analyzed_(on_two_ranks("gpipe")) {
    set("0F0", 0, 100);
    set("0SEND_F0", 100, 110);
    set("1RECV_F0", 100, 110);
    set("1F0", 110, 1110);
    set("0F1", 100, 200);
    set("0SEND_F1", 200, 210);
    set("1RECV_F1", 1110, 1115);
    set("1F1", 1115, 2115);
    set("1B0", 2115, 3115);
    set("1SEND_B0", 3115, 3125);
    set("0RECV_B0", 200, 3125);
    set("0B0", 3125, 3225);
    set("1B1", 3115, 4115);
    set("1SEND_B1", 4115, 4125);
    set("0RECV_B1", 3225, 4125);
    set("0B1", 4125, 4225);
  }

  /// The only instruction of that name.
  InstructionId id_of(const std::string& name) const {
    for (std::size_t i = 0; i < trace_.spans.size(); ++i) {
      const InstructionId id(static_cast<std::int32_t>(i));
      if (actions_text(analyzed_.program(), id) == name) return id;
    }
    ADD_FAILURE() << "no " << name;
    return InstructionId(0);
  }
  void set(const std::string& name, Nanoseconds start, Nanoseconds end) {
    trace_.spans[id_of(name)] = {{start, 0}, {end, 0}};
  }
  TimedTrace with(const std::string& group, double factor) const {
    ReplayCosts costs = replay_costs(analyzed_, trace_);
    EXPECT_TRUE(change(analyzed_, {{cost_group_from_text(group).value(), factor}}, costs));
    return replayed(analyzed_, costs);
  }

  AnalyzedProgram analyzed_;
  TimedTrace trace_{TimedTrace::Spans(analyzed_.program().size())};
};

TEST_F(EagerReplay, AsItIsItIsTheTrace) {
  ASSERT_EQ(trace_violations(analyzed_, trace_), std::vector<Violation>());
  EXPECT_EQ(replayed(analyzed_, replay_costs(analyzed_, trace_)), trace_);
}

/// Nor does the SEND that its RECV did wait for: another one of its class showed that it need not.
TEST_F(EagerReplay, ASendDoesNotWaitForASlowerReceiver) {
  const TimedTrace slower = with("F:1", 3);
  for (const char* name : {"0F0", "0SEND_F0", "0F1", "0SEND_F1"})
    EXPECT_EQ(slower.spans[id_of(name)], trace_.spans[id_of(name)]) << name;
  EXPECT_EQ(trace_span(slower), 4225 + 2 * 2000);
}

/// The second message arrives long before it is received: its SEND takes longer, and so does its receipt,
/// which took 5 ns.
TEST_F(EagerReplay, ASlowerLinkTakesTheTimeOfWhatIsReceived) {
  const TimedTrace slower = with("link:0-1", 10);
  EXPECT_EQ(slower.spans[id_of("0SEND_F1")], (Span{{200, 0}, {300, 0}}));
  EXPECT_EQ(slower.spans[id_of("1RECV_F1")], (Span{{1200, 0}, {1250, 0}}));
  EXPECT_EQ(trace_span(slower), 4225 + 9 * (10 + 5 + 10));
}

/// Where no SEND of a class was early, all wait for their RECVs.
TEST_F(EagerReplay, SendsThatEndedAfterTheirReceiversStartedWait) {
  set("0SEND_F1", 200, 1115);
  const TimedTrace slower = with("F:1", 3);
  EXPECT_EQ(slower.spans[id_of("0SEND_F1")].end.time, 3115);
}

TEST_F(EagerReplay, AnotherOrderHasEagerSendsToo) {
  const AnalyzedProgram other = on_two_ranks("1f1b");
  const ReplayCosts taken = replay_costs(analyzed_, trace_);
  const ReplayCosts moved = costs_in_other_order({analyzed_, taken}, other).value();
  int eager = 0;
  for (const ReplayMessage& message : moved.messages) eager += message.waits ? 0 : 1;
  EXPECT_EQ(eager, 2) << "the messages forward";
}

/// As where the buffers were full. It says nothing of the messages that were not measured.
TEST_F(EagerReplay, ASendThatTookMuchLongerWaited) {
  set("0SEND_F0", 100, 160);
  set("1RECV_F0", 150, 160);
  set("1F0", 160, 1110);
  const ReplayCosts taken = replay_costs(analyzed_, trace_);
  EXPECT_EQ(taken.durations[id_of("0SEND_F0")], 10);
  EXPECT_EQ(with("F:0", 1), trace_);
  const AnalyzedProgram more = on_two_ranks("gpipe", 4);
  const ReplayCosts moved = costs_in_other_order({analyzed_, taken}, more).value();
  for (std::size_t i = 0; i < moved.messages.size(); ++i) {
    const Message& message = more.timed_graph().messages[i];
    const std::string name = actions_text(more.program(), message.send);
    if (name == "0SEND_F0") {
      EXPECT_TRUE(moved.messages[i].waits);
    }
    if (name != "0SEND_F2") continue;
    EXPECT_EQ(moved.messages[i], (ReplayMessage{.waits = false, .arrival = 10}));
    EXPECT_EQ(moved.durations[message.send], 10);
    EXPECT_EQ(moved.durations[message.receive], 5) << "and not 10 as for the one that waited";
  }
}

TEST(Replay, NamesWhatWasNotMeasured) {
  const auto make = [](const std::string& name) {
    return AnalyzedProgram(lower(generate(name, {.ranks = 2, .microbatches = 4}).value(), {}).value(),
                           rendezvous());
  };
  const AnalyzedProgram from = make("1f1b");
  const ReplayCosts costs =
      replay_costs(from, *simulate_beside_transfers(from, {unit_cost_table({}), CostTable()}).value());
  const auto moved = costs_in_other_order({from, costs}, make("zb-h1"));
  ASSERT_FALSE(moved);
  EXPECT_NE(to_string(moved.error()).find("I0 of rank"), std::string::npos) << to_string(moved.error());
}

/// Of a trace without transfers, computation keeps its times.
TEST(Replay, ComputationAloneKeepsItsStep) {
  const AnalyzedProgram analyzed(lower(generate("1f1b", {.ranks = 3, .microbatches = 5}).value(), {}).value(),
                                 rendezvous());
  const TimedTrace whole =
      *simulate_beside_transfers(analyzed, {unit_cost_table({.F = 1, .B = 2, .c = 0.25}), CostTable()})
           .value();
  TimedTrace alone = whole;
  for (std::size_t i = 0; i < alone.spans.size(); ++i) {
    const InstructionId id(static_cast<std::int32_t>(i));
    if (is_communication(analyzed.program().actions(id)[0].kind)) alone.spans[id] = {{-1, 0}, {-1, 0}};
  }
  const TimedTrace again = replayed(analyzed, replay_costs(analyzed, alone));
  EXPECT_EQ(trace_span(again), trace_span(whole));
}

}  // namespace
}  // namespace ppsim
