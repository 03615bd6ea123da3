#pragma once

#include <vector>

#include "lifetimes.hpp"
#include "limits.hpp"
#include "ppsim/core/certificate/certificate.hpp"

namespace ppsim::verifier {

/// The answer to a relaxed question: tensors with one birth (the part that all of theirs share) and one death
/// (all of theirs), which may be left out although each part of it has happened.
struct Closure {
  Bytes bytes = 0;            ///< at least what the tensors can need together
  Clock moment;               ///< a set of completions at which the relaxed tensors need exactly `bytes`
  std::vector<char> counted;  ///< per lifetime: whether it is among those that do
  std::vector<Reuse> reuse;   ///< of tensors of the table: sum of all sizes less these is `bytes`
};

/// Maximum-weight closure by minimum cut. Sources of the flow are births, sinks deaths; a unit of flow from a
/// birth to a death that must precede it is a byte that the two tensors share. Errors: throws LimitReached.
[[nodiscard]] Closure heaviest_closure(const std::vector<Lifetime>& lifetimes, std::size_t tracks,
                                       const Limits& limits);

}  // namespace ppsim::verifier
