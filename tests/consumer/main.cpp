#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <utility>

#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/gpu_backend/stage_model/null_model.hpp"
#include "ppsim/planner/verified_run.hpp"
#include "ppsim/schedules/registry.hpp"
#include "ppsim/simulator/engine/simulate.hpp"
#include "ppsim/verifier/verify.hpp"
#include "scales.hpp"

namespace {

template <class T>
T value_or_exit(ppsim::Expected<T> result) {
  if (!result) {
    std::cerr << result.error() << '\n';
    std::exit(EXIT_FAILURE);
  }
  return *std::move(result);
}

bool require(bool holds, const char* what) {
  if (!holds) std::cerr << "does not hold: " << what << '\n';
  return holds;
}

/// 1F1B on 2 ranks: (microbatches + ranks - 1) rounds of F = 1 and B = 2.
bool simulated_time_is_right(const ppsim::Program& program) {
  const auto run = value_or_exit(
      ppsim::simulate_program(program, ppsim::rendezvous(), ppsim::unit_cost_table({.F = 1, .B = 2})));
  if (!require(run.has_value(), "the simulation finishes")) return false;
  ppsim::Nanoseconds end = 0;
  for (const ppsim::Span& span : run->spans) end = std::max(end, span.end.time);
  return require(end == (4 + 2 - 1) * 3 * ppsim::kUnitTime, "makespan = (m + p - 1)(F + B)");
}

/// The user's own stages: gradients are those without a pipeline, in a schedule with B and in one with I and
/// W, and that of the first weight is the product of the others times 1 + 2 + 3 + 4.
bool own_stages_train(const char* schedule) {
  ppsim::LoweringOptions lowering;
  lowering.optimizer = true;
  const auto program = value_or_exit(
      ppsim::lower(value_or_exit(ppsim::generate(schedule, {.ranks = 3, .microbatches = 4})), lowering));
  ppsim::VerifiedRunOptions options;
  options.compare = true;
  const auto once = value_or_exit(ppsim::verify_then_run(program, Scales(), options));
  options.run.steps = 5;
  const auto often = value_or_exit(ppsim::verify_then_run(program, Scales(), options));
  const double expected = (1 + 1.0 / 3) * (1 + 1.0 / 4) * 10;
  const double found = Scales::get(once.run.gradients.front().values);
  return require(once.max_abs_difference == 0.0 && often.max_abs_difference == 0.0, "gradients are equal") &
         require(std::abs(found - expected) < 1e-12, "the gradient of the first weight") &
         require(once.gradients_hash != often.gradients_hash, "updates change the gradients");
}

}  // namespace

int main() {
  const auto schedule = value_or_exit(ppsim::generate("1f1b", {.ranks = 2, .microbatches = 4}));
  const auto program = value_or_exit(ppsim::lower(schedule, {}));
  const ppsim::VerifyReport report = ppsim::verify(program);
  const auto run = value_or_exit(ppsim::verify_then_run(program, ppsim::NullModel(), {}));

  const bool good = require(report.proved(ppsim::Property::deadlock_free), "deadlock-free") &
                    simulated_time_is_right(program) &
                    require(run.run.outcome == ppsim::RunOutcome::finished, "the run finishes") &
                    own_stages_train("1f1b") & own_stages_train("zb-h1");
  return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
