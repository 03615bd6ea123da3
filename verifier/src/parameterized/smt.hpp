#pragma once

#include <z3++.h>

#include <cstdint>
#include <new>
#include <string>

#include "counters.hpp"
#include "proofs.hpp"
#include "solver/ask_z3.hpp"

namespace ppsim::verifier {

/// Z3's answer to whether some state of some member is of a kind.
struct SmtAnswer {
  enum class Outcome : std::uint8_t { never, sometimes, unknown };
  Outcome outcome = Outcome::unknown;
  std::int64_t k = 0;  ///< sometimes: a member with such a state
  std::string reason;  ///< unknown
};

/// Runs what asks Z3; its crash is an unknown with a reason.
template <class Ask>
FamilyAnswer guarded(Ask ask) {
  try {
    return ask();
  } catch (const z3::exception& error) {
    return {Unknown{std::string("Z3: ") + error.msg()}, 0, "smt"};
  } catch (const LimitReached& limit) {
    return {Unknown{limit.what()}, 0, "smt"};
  } catch (const std::bad_alloc&) {
    return {Unknown{kMemoryLimit}, 0, "smt"};
  }
}

/// The subject of questions about a periodic program, in words.
[[nodiscard]] std::string subject_of(const AllQuestion& question, const PeriodicProgram& family);

/// Questions about the states of one periodic program. Whoever asks names each.
class StateQuestion {
 public:
  /// Requires: counters and question outlive it.
  StateQuestion(z3::context& context, const Counters& counters, const AllQuestion& question);

  void add(const z3::expr_vector& conditions) { solver_.add(conditions); }
  void add(const z3::expr& condition) { solver_.add(condition); }
  [[nodiscard]] SmtAnswer ask(const QueryTitle& title);
  /// The smallest k >= from with such a state.
  [[nodiscard]] SmtAnswer ask_smallest(std::int64_t from, const QueryTitle& title);

 private:
  z3::context& context_;
  const Counters& counters_;
  const AllQuestion& question_;
  z3::solver solver_;
};

}  // namespace ppsim::verifier
