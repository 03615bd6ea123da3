#pragma once

#include <optional>
#include <string>
#include <vector>

#include "synthesis/chain_model.hpp"
#include "synthesis/clauses.hpp"
#include "synthesis/relaxation.hpp"

namespace ppsim::verifier::synthesis {

/// The state at `cut` comes again a period later, that many microbatches on: then what lies between can be
/// repeated any number of times.
struct Repetition {
  int microbatches = 1;
  Slot period = 1;
  Slot cut = 0;
};

/// Start times for all tasks within a bound of the objective.
struct StartTimes {
  enum class Outcome { found, none, unknown };
  Outcome outcome = Outcome::unknown;
  std::vector<Slot> starts = {};  ///< by task
  std::string reason = {};        ///< of `unknown`
};

/// A question for start times.
struct StartQuestion {
  const ChainModel& model;
  const Relaxation& relaxation;
  Slot bound = 0;
  std::optional<Repetition> repetition = {};
};

/// Boolean variables that the question takes.
[[nodiscard]] Slot question_size(const StartQuestion& question);

/// The question in clauses over "the task starts at t or later". A precedence is a clause per time, and so is
/// "a task of this phase runs at t", of which at most one holds on a rank.
/// Source: order encoding: Crawford and Baker, AAAI 1994; Tamura et al., Constraints 14 (2009).
[[nodiscard]] StartTimes find_start_times(const StartQuestion& question, const Asking& asking);

}  // namespace ppsim::verifier::synthesis
