#include <z3++.h>

#include <set>

#include "compare_methods.hpp"
#include "solver/ask_z3.hpp"

namespace ppsim::verifier {
namespace {

constexpr std::size_t kMaxVectors = 500;  ///< of one point

/// Asks for costs under which one path of the first Program is longer than all known ones of the second.
class CostQuestion {
 public:
  explicit CostQuestion(const CostBox& box)
      : solver_(context_, "QF_LRA"), values_(context_), height_(context_.real_const("second")) {
    for (std::size_t i = 0; i < box.dimension(); ++i) {
      const z3::expr value = context_.real_const(("x" + std::to_string(i)).c_str());
      solver_.add(value >= number(box.least[i]) && value <= number(box.most[i]));
      values_.push_back(value);
    }
    solver_.push();
  }

  void add_second(const PathVector& vector) {
    second_.push_back(vector);
    solver_.add(height_ >= linear(vector));
  }
  void set_first(const PathVector& vector) {
    solver_.pop();
    for (; kept_ < second_.size(); ++kept_) solver_.add(height_ >= linear(second_[kept_]));
    solver_.push();
    solver_.add(linear(vector) > height_);
  }

  SolverReply ask(const std::string& subject, const SolverOptions& limits) {
    const QueryTitle title{"path-is-longest", subject,
                           "Is a path of the first longer than the known ones of the second for some costs?",
                           "QF_LRA"};
    return ask_z3(solver_, title, limits);
  }

  [[nodiscard]] CostPoint model() const {
    const z3::model model = solver_.get_model();
    std::vector<Integer> numerators, denominators;
    Integer common = 1;
    for (unsigned i = 0; i < values_.size(); ++i) {
      const z3::expr value = model.eval(values_[i], true);
      numerators.emplace_back(Z3_get_numeral_string(context_, value.numerator()));
      denominators.emplace_back(Z3_get_numeral_string(context_, value.denominator()));
      common = lcm(common, denominators.back());
    }
    CostPoint point{common};
    for (std::size_t i = 0; i < numerators.size(); ++i)
      point.emplace_back(numerators[i] * (common / denominators[i]));
    return point;
  }

 private:
  z3::expr number(std::int64_t value) { return context_.real_val(value); }

  z3::expr linear(const PathVector& vector) {
    z3::expr_vector terms(context_);
    terms.push_back(number(vector[0]));
    for (unsigned i = 0; i < values_.size(); ++i) {
      if (vector[i + 1] != 0) terms.push_back(number(vector[i + 1]) * values_[i]);
    }
    return sum(terms);
  }

  z3::context context_;
  z3::solver solver_;
  z3::expr_vector values_;
  z3::expr height_;                 ///< at least the makespan of the second Program, as far as it is known
  std::vector<PathVector> second_;  ///< its known paths
  std::size_t kept_ = 0;            ///< of them, those that stay when another path of the first is asked for
};

/// Every corner that differs from all least or all largest costs in one of them, and these two.
std::vector<CostPoint> samples(const CostBox& box) {
  std::vector<CostPoint> points;
  for (const bool most : {true, false}) {
    points.push_back(box.corner(std::vector<bool>(box.dimension(), most)));
    for (std::size_t i = 0; i < box.dimension(); ++i) {
      std::vector<bool> largest(box.dimension(), most);
      largest[i] = !most;
      points.push_back(box.corner(largest));
    }
  }
  return points;
}

class PathSearch {
 public:
  PathSearch(const PricedPair& pair, const SolverOptions& limits, const std::string& subject)
      : pair_(pair), limits_(limits), subject_(subject), deadline_(limits.timeout_s), question_(pair.box) {}

  Comparison run() {
    for (const CostPoint& point : samples(pair_.box)) {
      if (deadline_.over()) return unknown(kTimeLimit);
      if (is_slower_at(point)) return std::move(result_);
      first_.insert(longest_at(pair_.first, point).vector);
    }
    const auto all = path_vectors(pair_.first, pair_.box, kMaxVectors, deadline_);
    std::vector<PathVector> vectors(first_.begin(), first_.end());
    for (const PathVector& vector : all.value_or(vectors)) {
      if (!settle(vector)) return std::move(result_);
    }
    if (!all)
      return unknown("no costs were found under which the first is slower, but it has too many paths");
    result_.outcome = Comparison::Outcome::never_slower;
    return std::move(result_);
  }

 private:
  /// Whether the first Program is slower at a point; else the path of the second one there is added.
  bool is_slower_at(const CostPoint& point) {
    const LongestPath second = longest_at(pair_.second, point);
    ++result_.evaluated;
    if (length_at(pair_.first, point) > second.length) {
      result_.outcome = Comparison::Outcome::slower;
      result_.slower_at = point;
      return true;
    }
    if (second_.insert(second.vector).second) question_.add_second(second.vector);
    result_.paths = second_.size();
    return false;
  }

  /// True when some path of the second Program is as long as this one of the first, whatever the costs.
  bool settle(const PathVector& vector) {
    question_.set_first(vector);
    while (true) {
      SolverOptions limits = limits_;
      limits.timeout_s = deadline_.remaining_s();
      SolverReply reply = question_.ask(subject_, limits);
      switch (reply.answer) {
        case SolverQuery::Answer::unsat:
          return true;
        case SolverQuery::Answer::unknown:
          result_.reason = std::move(reply.reason);
          return false;
        case SolverQuery::Answer::sat:
          break;
      }
      if (is_slower_at(question_.model())) return false;
    }
  }

  Comparison unknown(std::string reason) {
    result_.reason = std::move(reason);
    return std::move(result_);
  }

  const PricedPair& pair_;
  const SolverOptions& limits_;
  const std::string& subject_;
  Deadline deadline_;
  CostQuestion question_;
  std::set<PathVector> first_;
  std::set<PathVector> second_;
  Comparison result_;
};

}  // namespace

Comparison compare_by_paths(const PricedPair& pair, const SolverOptions& limits, const std::string& subject) {
  try {
    return PathSearch(pair, limits, subject).run();
  } catch (const z3::exception& error) {
    Comparison result;
    result.reason = std::string("Z3: ") + error.msg();
    return result;
  }
}

}  // namespace ppsim::verifier
