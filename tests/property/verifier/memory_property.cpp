#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "ppsim/core/execution/timed_trace.hpp"
#include "ppsim/verifier/verify.hpp"
#include "support/all_states.hpp"
#include "support/budget.hpp"
#include "support/random_program.hpp"
#include "support/random_schedule.hpp"

namespace ppsim::test {
namespace {

/// A size between 0 and 9 for every tensor, whatever its class.
std::vector<Bytes> random_sizes(const TensorTable& table, std::uint64_t seed) {
  std::vector<Bytes> sizes;
  for (std::size_t t = 0; t < table.tensors.size(); ++t) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    sizes.push_back(static_cast<Bytes>((seed >> 33) % 10));
  }
  return sizes;
}

/// A small Program that finishes, and everything around it.
struct MemoryCase {
  AnalyzedProgram analyzed;
  std::vector<Bytes> sizes;
  const Program& program = analyzed.program();
  const ExecutionGraph& graph = analyzed.guaranteed_graph();
  const RunOrder& order = analyzed.order();
  const TensorTable& table = analyzed.tensors();
};

/// The same, which keeps what it sends.
Program keeping(const Program& program, int delay) {
  ProgramDraft draft = to_draft(program);
  draft.send_done_delay = delay;
  return ProgramBuilder::build(program.pipeline(), draft).value();
}

MemoryCase memory_case(Program program, const TransportCapabilities& capabilities, std::uint64_t seed) {
  const AnalyzedProgram analyzed(std::move(program), capabilities);
  return {analyzed, random_sizes(analyzed.tensors(), seed)};
}

MemoryCase draw_memory_case(int mutations, bool credits) {
  const Schedule schedule = *schedules(general_shapes());
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  MemoryCase c = memory_case(random_program(schedule, mutations, seed),
                             credits ? random_capabilities(false, seed) : TransportCapabilities(), seed);
  RC_PRE(c.order.complete);
  return c;
}

void check_against_all_states(const MemoryCase& c) {
  const auto expected = max_memory_of_all_states(c.program, c.graph, c.sizes, 5'000);
  if (!expected) leave_undecided("more than 5,000 states");
  for (int r = 0; r < c.program.pipeline().ranks(); ++r) {
    const auto worst = worst_case_memory(c.analyzed, c.sizes, RankId(r));
    RC_ASSERT(worst.has_value());
    RC_ASSERT(worst->bytes == (*expected)[static_cast<std::size_t>(r)]);
  }
}

RC_GTEST_PROP(Memory, WorstCaseIsTheMaximumOverAllStates, ()) {
  check_against_all_states(draw_memory_case(0, true));
}

RC_GTEST_PROP(Memory, WorstCaseIsTheMaximumOverAllStatesWhereSendsAreKept, ()) {
  const Schedule schedule = *schedules(general_shapes());
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const int delay = *rc::gen::element(1, 2, 3, kUntilStepEnd);
  const MemoryCase c =
      memory_case(keeping(random_program(schedule, *rc::gen::inRange(0, 3), seed), delay), {}, seed);
  RC_PRE(c.order.complete);
  check_against_all_states(c);
}

RC_GTEST_PROP(Memory, WorstCaseIsTheMaximumOverAllStatesOfMutants, ()) {
  check_against_all_states(draw_memory_case(*rc::gen::inRange(1, 6), false));
}

RC_GTEST_PROP(Memory, WorstCaseIsTheMaximumOverAllStatesWhereCreditsRunOut, ()) {
  RandomShape shape{.ranks = 2, .backward = BackwardMode::none};
  shape.chunks = *rc::gen::inRange(1, 4);
  shape.microbatches = *rc::gen::inRange(2, 5);
  shape.general = *rc::gen::arbitrary<bool>();
  auto seed = *rc::gen::arbitrary<std::uint64_t>();
  for (int i = 0; i < 10; ++i, ++seed) {
    const MemoryCase c = memory_case(late_program(random_schedule(shape, seed), seed),
                                     {.credits = *rc::gen::inRange(1, 3)}, seed);
    if (c.order.complete) check_against_all_states(c);
  }
}

/// Items of a firing order as instants.
TimedTrace trace_of(const FiringOrder& firing) {
  TimedTrace trace{TimedTrace::Spans(firing.items.size() / 2)};
  for (std::size_t i = 0; i < firing.items.size(); ++i) {
    Span& span = trace.spans[InstructionId(static_cast<std::int32_t>(firing.items[i] / 2))];
    (firing.items[i] % 2 == 0 ? span.start : span.end).time = static_cast<Nanoseconds>(i);
  }
  return trace;
}

RC_GTEST_PROP(Memory, TheFiringOrderReachesTheWorstCase, ()) {
  const MemoryCase c = draw_memory_case(*rc::gen::inRange(0, 3), true);
  for (int r = 0; r < c.program.pipeline().ranks(); ++r) {
    const auto worst = worst_case_memory(c.analyzed, c.sizes, RankId(r));
    const FiringOrder firing = firing_order(c.graph, c.order, *worst);
    RC_ASSERT(memory_at(c.table, c.sizes, RankId(r), firing) == worst->bytes);
    RC_ASSERT(replay_memory(c.program, trace_of(firing), c.table, c.sizes)[RankId(r)].peak_bytes ==
              worst->bytes);
    Bytes live = 0;
    for (const std::uint32_t t : worst->live) live += c.sizes[t];
    RC_ASSERT(live == worst->bytes);
  }
}

RC_GTEST_PROP(Memory, WitnessesShareNoMoreThanThereIs, ()) {
  const MemoryCase c = draw_memory_case(*rc::gen::inRange(0, 3), true);
  for (int r = 0; r < c.program.pipeline().ranks(); ++r) {
    const auto worst = worst_case_memory(c.analyzed, c.sizes, RankId(r));
    RC_ASSERT(worst->witness.bytes >= worst->bytes);
    Bytes total = 0;
    for (std::size_t t = 0; t < c.sizes.size(); ++t)
      total += c.table.tensors[t].rank == RankId(r) ? c.sizes[t] : 0;
    for (const Reuse& reuse : worst->witness.reuse) total -= reuse.bytes;
    RC_ASSERT(total == worst->witness.bytes);
  }
}

SizeTable random_size_table(std::uint64_t seed) {
  SizeTable sizes;
  for (int kind = 0; kind < kTensorKindCount; ++kind) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    sizes.set({.kind = static_cast<TensorKind>(kind)}, static_cast<Bytes>((seed >> 33) % 10));
  }
  return sizes;
}

RC_GTEST_PROP(Certificate, OfAProvedProgramPassesTheChecker, ()) {
  const Schedule schedule = *schedules(general_shapes());
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const Program program = random_program(schedule, *rc::gen::inRange(0, 2), seed);
  VerifyOptions options;
  options.capabilities = random_capabilities(false, seed);
  options.sizes = random_size_table(seed);
  const VerifyReport report = verify(program, options);
  const auto certificate = make_certificate({program, options.capabilities}, options, report);
  RC_ASSERT(certificate.has_value() ==
            (report.proved(Property::well_formed) && report.proved(Property::matched) &&
             report.proved(Property::deadlock_free) && report.proved(Property::tensor_use)));
  RC_PRE(certificate.has_value());
  const auto checked = check_certificate(*certificate, program, &*options.sizes);
  RC_ASSERT(checked.has_value());

  // A firing order is a run like any other.
  Certificate other = *certificate;
  const ExecutionGraph graph = build_execution_graph(program, options.capabilities);
  other.order = firing_order(graph, {certificate->order, true}, report.memory.back()).items;
  RC_ASSERT(check_certificate(other, program, &*options.sizes).has_value());
}

}  // namespace
}  // namespace ppsim::test
