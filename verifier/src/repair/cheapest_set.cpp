#include "repair/cheapest_set.hpp"

#include <z3++.h>

#include <utility>

#include "solver/ask_z3.hpp"

namespace ppsim::verifier::repairing {
namespace {

z3::expr_vector constants(z3::context& context, const char* name, std::size_t count) {
  z3::expr_vector result(context);
  for (std::size_t i = 0; i < count; ++i)
    result.push_back(context.bool_const((name + std::to_string(i)).c_str()));
  return result;
}

z3::expr clause_of(const std::vector<Choice>& choices, const z3::expr_vector& changes) {
  z3::expr_vector literals(changes.ctx());
  for (const Choice& choice : choices) {
    const z3::expr change = changes[static_cast<unsigned>(choice.number)];
    literals.push_back(choice.made ? change : !change);
  }
  return z3::mk_or(literals);
}

}  // namespace

int CheapestSet::add(unsigned weight) {
  weights_.push_back(weight);
  return static_cast<int>(weights_.size()) - 1;
}

void CheapestSet::require(std::vector<Choice> choices, std::string why) {
  clauses_.push_back({std::move(choices), std::move(why)});
}

// Each question is put to a new Z3, so that no answer depends on those before.
CheapestSet::Answer CheapestSet::cheapest(double timeout_s) const {
  if (timeout_s <= 0) return {.reason = "time limit reached"};
  try {
    z3::context context;
    z3::optimize optimize(context);
    optimize.set(parameters_of_question(context, timeout_s));
    const z3::expr_vector changes = constants(context, "c", weights_.size());
    for (unsigned i = 0; i < weights_.size(); ++i) optimize.add(!changes[i], weights_[i]);
    for (const Clause& clause : clauses_) optimize.add(clause_of(clause.choices, changes));
    const z3::check_result result = optimize.check();
    if (result == z3::unsat) return {.outcome = Answer::Outcome::none};
    if (result == z3::unknown) return {.reason = "time limit reached"};
    const z3::model model = optimize.get_model();
    Answer answer{.outcome = Answer::Outcome::found};
    for (unsigned i = 0; i < weights_.size(); ++i) {
      if (model.eval(changes[i], true).is_true()) answer.changes.push_back(static_cast<int>(i));
    }
    return answer;
  } catch (const z3::exception& error) {
    return {.reason = std::string("Z3: ") + error.msg()};
  }
}

std::vector<std::string> CheapestSet::core(double timeout_s) const {
  std::vector<std::string> reasons;
  try {
    z3::context context;
    z3::solver solver(context);
    z3::params params = parameters_of_question(context, timeout_s);
    params.set("core.minimize", true);
    solver.set(params);
    const z3::expr_vector changes = constants(context, "c", weights_.size());
    z3::expr_vector labels = constants(context, "r", clauses_.size());
    for (unsigned i = 0; i < clauses_.size(); ++i)
      solver.add(z3::implies(labels[i], clause_of(clauses_[i].choices, changes)));
    if (solver.check(labels) != z3::unsat) return reasons;
    const z3::expr_vector core = solver.unsat_core();
    for (unsigned i = 0; i < clauses_.size(); ++i) {
      bool in_core = false;
      for (unsigned c = 0; c < core.size(); ++c) in_core = in_core || z3::eq(core[c], labels[i]);
      if (in_core && !clauses_[i].why.empty()) reasons.push_back(clauses_[i].why);
    }
  } catch (const z3::exception&) {
    reasons.clear();
  }
  return reasons;
}

}  // namespace ppsim::verifier::repairing
