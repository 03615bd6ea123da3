#pragma once

#include <z3++.h>

#include <string>

namespace ppsim::verifier {

/// Declarations and assertions in SMT-LIB 2.6. At most k, at least k and weighted sums of Booleans, for which
/// the standard has no word, become sums of integers.
[[nodiscard]] std::string smt2_text(const z3::expr_vector& assertions);

}  // namespace ppsim::verifier
