#pragma once

#include <stdexcept>

#include "ppsim/planner/verified_run.hpp"

namespace ppsim::test {

/// A proved run on threads with poisoned memory, its gradients beside those of the reference.
inline Expected<VerifiedRun> try_compared_run(const Program& program, const CpuStageModel& model,
                                              int steps = 1) {
  VerifiedRunOptions options;
  options.run.poison = true;
  options.run.steps = steps;
  options.compare = true;
  return verify_then_run(program, model, options);
}

/// The same. Errors: throws std::runtime_error.
inline VerifiedRun compared_run(const Program& program, const CpuStageModel& model, int steps = 1) {
  auto result = try_compared_run(program, model, steps);
  if (!result) throw std::runtime_error(to_string(result.error()));
  return *std::move(result);
}

}  // namespace ppsim::test
