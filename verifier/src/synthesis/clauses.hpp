#pragma once

#include <chrono>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "solver/query.hpp"

namespace ppsim::verifier::synthesis {

using Clock = std::chrono::steady_clock;

/// A Boolean variable, its negation, or a constant.
class Literal {
 public:
  [[nodiscard]] static Literal variable(int number) { return Literal(2 * number); }
  [[nodiscard]] static Literal constant(bool value) { return Literal(value ? kTrue : kFalse); }

  [[nodiscard]] bool is_true() const { return code_ == kTrue; }
  [[nodiscard]] bool is_false() const { return code_ == kFalse; }
  [[nodiscard]] int number() const { return code_ / 2; }
  [[nodiscard]] bool negated() const { return code_ % 2 != 0; }
  [[nodiscard]] Literal operator!() const { return Literal(code_ < 0 ? kTrue + kFalse - code_ : code_ ^ 1); }

 private:
  static constexpr int kTrue = -1;
  static constexpr int kFalse = -2;
  explicit Literal(int code) : code_(code) {}
  int code_;
};

/// Clauses over Boolean variables.
class Clauses {
 public:
  [[nodiscard]] Literal new_variable() { return Literal::variable(new_variables(1)); }
  /// The number of the first of `count` new ones in a row.
  int new_variables(int count) {
    variables_ += count;
    return variables_ - count;
  }
  /// At least one of the literals holds.
  void add(std::initializer_list<Literal> literals);
  /// At most so many of the literals hold.
  void add_at_most(const std::vector<Literal>& literals, int most);

  [[nodiscard]] int variables() const { return variables_; }
  /// Some of so many variables hold at most.
  struct AtMost {
    std::vector<Literal> literals;
    int most = 0;
  };
  [[nodiscard]] const std::vector<AtMost>& at_most() const { return at_most_; }
  [[nodiscard]] std::size_t size() const { return ends_.size(); }
  [[nodiscard]] std::span<const Literal> operator[](std::size_t i) const {
    const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
    return {literals_.data() + begin, ends_[i] - begin};
  }

 private:
  int variables_ = 0;
  std::vector<Literal> literals_;
  std::vector<std::size_t> ends_;
  std::vector<AtMost> at_most_;
};

struct ClauseAnswer {
  enum class Outcome { satisfiable, unsatisfiable, unknown };
  Outcome outcome = Outcome::unknown;
  std::vector<bool> values = {};  ///< by variable
  std::string reason = {};        ///< of `unknown`
};

/// How a question is asked.
struct Asking {
  QueryTitle title;
  Clock::time_point deadline;
  SolverOptions options = {};  ///< its timeout aside
};

/// Asks Z3 (its logic QF_FD) for values under which every clause holds.
[[nodiscard]] ClauseAnswer satisfy(const Clauses& clauses, const Asking& asking);

}  // namespace ppsim::verifier::synthesis
