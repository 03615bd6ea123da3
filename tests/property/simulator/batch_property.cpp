// Many cost vectors at once: lane by lane what one run after another gives.

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <limits>

#include "ppsim/simulator/engine/batch.hpp"
#include "ppsim/simulator/engine/cost_binder.hpp"
#include "support/random_program.hpp"
#include "support/random_schedule.hpp"

namespace ppsim {
namespace {

struct BatchCase {
  CompiledProgram compiled;
  int stages = 0;
  std::uint64_t seed = 0;
};

BatchCase draw_batch_case() {
  const Schedule schedule = *test::schedules(test::general_shapes());
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const Program program = test::random_program(schedule, *rc::gen::inRange(0, 3), seed);
  auto compiled = compile({program, test::random_capabilities(false, seed + 1)});
  RC_PRE(compiled.has_value());
  return {*std::move(compiled), schedule.pipeline().stages(), seed};
}

/// Many of them 0 or equal, some long; now and then one that alone is nearly too long.
CostTable draw_table(const BatchCase& c, std::uint64_t number) {
  CostTable costs = test::random_costs(c.stages, c.seed + number);
  const Nanoseconds factor = *rc::gen::element<Nanoseconds>(0, 1, 1, 1'000'000'007);
  CostTable scaled;
  for (const auto& [key, duration] : costs.entries()) scaled.set(key, duration * factor);
  return scaled;
}

RC_GTEST_PROP(BatchProperty, EveryLaneIsARunByItself, ()) {
  BatchProgram::Scratch scratch;  // of all Programs
  for (int programs = 0; programs < 2; ++programs) {
    const BatchCase c = draw_batch_case();
    std::vector<BoundCosts> costs;
    const int count = *rc::gen::inRange(0, 20);
    for (int i = 0; i < count; ++i)
      costs.push_back(bind_costs(c.compiled, draw_table(c, static_cast<std::uint64_t>(i))).value());
    const std::vector<StepTimes> times = simulate_batch(BatchProgram(c.compiled), costs, scratch);
    RC_ASSERT(times.size() == costs.size());
    SimulationScratch single;
    for (std::size_t i = 0; i < costs.size(); ++i)
      RC_ASSERT((times[i] == simulate(c.compiled, costs[i], single)));
  }
}

RC_GTEST_PROP(BatchProperty, BindsAndRefusesTablesAsOneByOne, ()) {
  const BatchCase c = draw_batch_case();
  CostBinder bind(c.compiled);
  CostTable costs = draw_table(c, 0);
  for (int i = 0; i < 6; ++i) {
    const int change = *rc::gen::inRange(0, 4);
    if (change == 0) costs = draw_table(c, static_cast<std::uint64_t>(i));  // other keys, perhaps
    if (change == 1) costs.set({.kind = OpKind::forward, .subject = *rc::gen::inRange(0, c.stages)}, 7);
    if (change == 2) {  // together they may not fit
      const auto divisor = *rc::gen::inRange<Nanoseconds>(1, 40);
      costs.set({.kind = OpKind::forward}, std::numeric_limits<Nanoseconds>::max() / divisor);
    }
    const auto expected = bind_costs(c.compiled, costs);
    RC_TAG(expected ? "bound" : "refused");
    RC_ASSERT((bind(costs) == expected));
  }
}

}  // namespace
}  // namespace ppsim
