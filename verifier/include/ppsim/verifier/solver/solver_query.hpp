#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "ppsim/core/ir/units.hpp"

namespace ppsim::verifier {

/// A question that was put to Z3, in SMT-LIB 2.6 without extensions of Z3, so that any other solver reads it.
struct SolverQuery {
  enum class Answer : std::uint8_t { sat, unsat, unknown };
  std::string name;                 ///< "memory-rank2-above-89": small letters, digits and hyphens
  Answer answer = Answer::unknown;  ///< of Z3
  std::string script;               ///< the whole file: the question as comments, the answer as :status

  friend bool operator==(const SolverQuery&, const SolverQuery&) = default;
};
/// "sat", "unsat" or "unknown".
[[nodiscard]] std::string_view answer_name(SolverQuery::Answer answer);

/// Called with each query once Z3 has answered it. Order: that in which they are asked.
using QuerySink = std::function<void(const SolverQuery&)>;

/// The limits of questions to Z3, and who is told of them.
struct SolverOptions {
  double timeout_s = 60;
  std::optional<Bytes> memory_budget = {};  ///< none: as much as there is
  QuerySink queries = {};                   ///< none: nobody
  std::function<bool()> stopped = {};       ///< as in VerifyOptions
};

}  // namespace ppsim::verifier

namespace ppsim {
using verifier::answer_name;
using verifier::QuerySink;
using verifier::SolverOptions;
using verifier::SolverQuery;
}  // namespace ppsim
