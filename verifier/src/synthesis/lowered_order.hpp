#pragma once

#include <optional>
#include <vector>

#include "ppsim/verifier/synthesis/synthesis.hpp"

namespace ppsim::verifier::synthesis {

/// The Program of a schedule that earliest_times accepts, in the order `timed`.
[[nodiscard]] Program lowered(const Schedule& schedule, const CostTable& costs);

/// The proof that a Program runs and that no rank needs more than the limit in any timing, and the most that
/// a rank needs. Empty where the time did not suffice. Errors: throws CheckFailure where it is refuted.
struct LimitProof {
  std::optional<Certificate> certificate;
  Bytes worst = 0;
};
[[nodiscard]] LimitProof proof_of(const Program& program, const SynthesisRequest& request, double timeout_s);

/// By how many bytes the worst timing of each rank is above the limit in bytes; empty where none is.
/// Requires: request.bytes.
[[nodiscard]] std::vector<Bytes> bytes_over(const Schedule& schedule, const SynthesisRequest& request);

}  // namespace ppsim::verifier::synthesis
