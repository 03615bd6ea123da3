#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "ppsim/simulator/engine/simulate.hpp"
#include "ppsim/verifier/intervals/never_slower.hpp"
#include "support/budget.hpp"
#include "support/random_program.hpp"
#include "support/random_schedule.hpp"

namespace ppsim::test {
namespace {

/// The makespan by the simulator, which the verifier does not include.
Nanoseconds simulated(const Program& program, const TransportCapabilities& capabilities,
                      const CostTable& costs) {
  const SimulatedRun run = simulate_program(program, capabilities, costs).value();
  Nanoseconds makespan = 0;
  for (const Span& span : run->spans) makespan = std::max(makespan, span.end.time);
  return makespan;
}

bool finishes(const Program& program, const TransportCapabilities& capabilities) {
  return simulate_program(program, capabilities, {}).value().has_value();
}

RC_GTEST_PROP(Makespan, IsThatOfTheSimulatorAtBothEnds, ()) {
  const Schedule schedule = *schedules(general_shapes());
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const Program program = random_program(schedule, *rc::gen::inRange(0, 4), seed);
  VerifyOptions options;
  options.capabilities = random_capabilities(false, seed);
  // Where waits may occur or not, the bound counts them and the simulator does not.
  options.capabilities.guaranteed_launches = options.capabilities.launches;
  options.costs = CostBounds{{}, random_costs(schedule.pipeline().stages(), seed + 1)};
  RC_PRE(finishes(program, options.capabilities));
  const Nanoseconds expected = simulated(program, options.capabilities, options.costs->most);

  options.makespan_limit = expected;
  const VerifyReport report = verify(program, options);
  RC_ASSERT(report.proved(Property::makespan));
  RC_ASSERT(report.makespan == (MakespanRange{0, expected}));

  RC_PRE(expected > 0);
  options.makespan_limit = expected - 1;
  const VerifyReport late = verify(program, options);
  const auto& refuted = std::get<Refuted>(late.find(Property::makespan)->verdict);
  const auto& end = std::get<LateEnd>(refuted.counterexample);
  RC_ASSERT(end.makespan == expected);
  Nanoseconds at = 0;
  for (const TimedInstruction& timed : end.critical_path) {
    RC_ASSERT(timed.start == at);
    at = timed.end;
  }
  RC_ASSERT(at == expected);
}

/// Two Programs of one schedule that both finish, and costs in small intervals.
struct Pair {
  Program first;
  Program second;
  TransportCapabilities capabilities;
  CostSpace costs;
};

/// Up to four intervals of small numbers; B is the sum of I and W or one of its own.
CostSpace draw_costs() {
  CostSpace costs;
  const auto draw = [&](const char* name) {
    const auto least = *rc::gen::inRange<Nanoseconds>(0, 5);
    const auto width = *rc::gen::weightedOneOf<Nanoseconds>(
        {{1, rc::gen::just<Nanoseconds>(0)}, {3, rc::gen::inRange<Nanoseconds>(1, 6)}});
    return costs.add({name, least, least + width});
  };
  const LinearCost f = draw("F"), i = draw("I"), w = draw("W"), c = draw("c");
  costs.set({OpKind::forward}, f);
  costs.set({OpKind::backward_input}, i);
  costs.set({OpKind::backward_weight}, w);
  costs.set({OpKind::backward}, i + w + LinearCost{*rc::gen::inRange<Nanoseconds>(0, 2), {}});
  costs.set({OpKind::overlap}, f + 2 * w);
  for (const OpKind send : {OpKind::send_forward, OpKind::send_backward, OpKind::send_activation})
    costs.set({send}, c);
  costs.set({OpKind::recompute, 0}, f);
  return costs;
}

/// Two damaged versions of one schedule, or two schedules of one shape: either may be the slower one.
Pair draw_pair() {
  RandomShape shape = *general_shapes();
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const auto other = *rc::gen::arbitrary<std::uint64_t>();
  Pair pair{random_program(random_schedule(shape, seed), *rc::gen::inRange(0, 3), seed),
            random_program(random_schedule(shape, *rc::gen::element(seed, other)), 0, other),
            random_capabilities(false, seed), draw_costs()};
  RC_PRE(finishes(pair.first, pair.capabilities) && finishes(pair.second, pair.capabilities));
  return pair;
}

NeverSlowerAnswer ask(const Pair& pair, CompareMethod method) {
  const SolverBudget budget(1'000'000);
  return never_slower({pair.first, pair.second, pair.costs, pair.capabilities, {kNoTimeLimit_s}, method})
      .value();
}

Nanoseconds slower_by(const Pair& pair, const std::vector<Nanoseconds>& values) {
  const CostTable costs = pair.costs.at(values);
  return simulated(pair.first, pair.capabilities, costs) - simulated(pair.second, pair.capabilities, costs);
}

/// The whole numbers within all intervals.
std::vector<std::vector<Nanoseconds>> grid(const CostSpace& costs) {
  std::vector<std::vector<Nanoseconds>> points{{}};
  for (const CostVariable& variable : costs.variables()) {
    std::vector<std::vector<Nanoseconds>> longer;
    for (const auto& point : points) {
      for (Nanoseconds value = variable.least; value <= variable.most; ++value) {
        longer.push_back(point);
        longer.back().push_back(value);
      }
    }
    points = std::move(longer);
  }
  return points;
}

RC_GTEST_PROP(NeverSlower, AgreesWithTheSimulatorOnAllWholeCosts, ()) {
  const Pair pair = draw_pair();
  const NeverSlowerAnswer answer = ask(pair, CompareMethod::vertices);
  RC_ASSERT(!std::holds_alternative<Unknown>(answer.verdict));
  RC_ASSERT(answer.difference->least == answer.difference->most);
  for (const auto& values : grid(pair.costs)) {
    const Nanoseconds difference = slower_by(pair, values);
    RC_ASSERT(static_cast<double>(difference) <= answer.difference->most + 1e-9);
    if (difference > 0) RC_ASSERT(std::holds_alternative<Slower>(answer.verdict));
    const CostTable costs = pair.costs.at(values);
    const auto second = static_cast<double>(simulated(pair.second, pair.capabilities, costs));
    const auto first = static_cast<double>(simulated(pair.first, pair.capabilities, costs));
    RC_ASSERT(first <= answer.ratio->most * second * (1 + 1e-12) + 1e-9 || second == 0);
  }
}

RC_GTEST_PROP(NeverSlower, CounterexamplesReplayInTheSimulator, ()) {
  const Pair pair = draw_pair();
  for (const CompareMethod method : {CompareMethod::vertices, CompareMethod::paths}) {
    const NeverSlowerAnswer answer = ask(pair, method);
    const auto* slower = std::get_if<Slower>(&answer.verdict);
    RC_TAG(slower != nullptr ? "slower" : "never slower");
    if (slower == nullptr) continue;
    const CostTable costs = pair.costs.at(slower->at.values);
    RC_ASSERT(simulated(pair.first, pair.capabilities, costs) == slower->at.first);
    RC_ASSERT(simulated(pair.second, pair.capabilities, costs) == slower->at.second);
    RC_ASSERT(slower->at.first > slower->at.second || !slower->at.exact.empty());
  }
}

RC_GTEST_PROP(NeverSlower, BothMethodsAgree, ()) {
  const Pair pair = draw_pair();
  const NeverSlowerAnswer vertices = ask(pair, CompareMethod::vertices);
  const NeverSlowerAnswer paths = ask(pair, CompareMethod::paths);
  RC_ASSERT(!std::holds_alternative<Unknown>(vertices.verdict));
  if (const auto* unknown = std::get_if<Unknown>(&paths.verdict)) leave_undecided(unknown->reason);
  RC_ASSERT(vertices.verdict.index() == paths.verdict.index());
}

RC_GTEST_PROP(NeverSlower, AProgramIsNeverSlowerThanItself, ()) {
  Pair pair = draw_pair();
  pair.second = pair.first;
  const NeverSlowerAnswer answer = ask(pair, CompareMethod::vertices);
  RC_ASSERT(std::holds_alternative<Proved>(answer.verdict));
  RC_ASSERT(answer.difference->most == 0);
}

}  // namespace
}  // namespace ppsim::test
