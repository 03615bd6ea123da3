#pragma once

#include "command.hpp"
#include "ppsim/verifier/all_microbatches.hpp"
#include "ppsim/verifier/all_ranks.hpp"
#include "ppsim/verifier/verify.hpp"

namespace ppsim::cli {

/// A counterexample as `verify --json` writes it.
[[nodiscard]] Json counterexample_json(const Program& program, const Counterexample& counterexample);

/// `verify --all-microbatches`: decides, prints, and returns the exit code.
int verify_for_all(const ProgramFor& program_for, const VerifyOptions& asked, const Output& output);

/// `verify --all-microbatches` without --ranks: for every number of ranks as well.
int verify_for_all_ranks(const ProgramForRanks& program_for, double timeout_s, const Output& output);

}  // namespace ppsim::cli
