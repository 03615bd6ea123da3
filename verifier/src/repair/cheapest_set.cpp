#include "repair/cheapest_set.hpp"

#include <z3++.h>

#include <algorithm>

namespace ppsim::repairing {

struct CheapestSet::Solver {
  z3::context context;
  z3::optimize optimize{context};
  std::vector<z3::expr> variables;
};

CheapestSet::CheapestSet() : solver_(std::make_unique<Solver>()) {}
CheapestSet::~CheapestSet() = default;

int CheapestSet::add(unsigned weight) {
  const int number = static_cast<int>(solver_->variables.size());
  solver_->variables.push_back(solver_->context.bool_const(("c" + std::to_string(number)).c_str()));
  solver_->optimize.add(!solver_->variables.back(), weight);
  return number;
}

void CheapestSet::require(const std::vector<Choice>& choices) {
  z3::expr_vector literals(solver_->context);
  for (const Choice& choice : choices) {
    const z3::expr& variable = solver_->variables[static_cast<std::size_t>(choice.number)];
    literals.push_back(choice.made ? variable : !variable);
  }
  solver_->optimize.add(z3::mk_or(literals));
}

CheapestSet::Answer CheapestSet::cheapest(double timeout_s) {
  if (timeout_s <= 0) return {.reason = "time limit reached"};
  try {
    z3::params params(solver_->context);
    params.set("timeout", static_cast<unsigned>(std::clamp(timeout_s * 1000, 1.0, 4e9)));
    solver_->optimize.set(params);
    const z3::check_result result = solver_->optimize.check();
    if (result == z3::unsat) return {.outcome = Answer::Outcome::none};
    if (result == z3::unknown) return {.reason = "time limit reached"};
    const z3::model model = solver_->optimize.get_model();
    Answer answer{.outcome = Answer::Outcome::found};
    for (std::size_t i = 0; i < solver_->variables.size(); ++i) {
      if (model.eval(solver_->variables[i], true).is_true()) answer.changes.push_back(static_cast<int>(i));
    }
    return answer;
  } catch (const z3::exception& error) {
    return {.reason = std::string("Z3: ") + error.msg()};
  }
}

}  // namespace ppsim::repairing
