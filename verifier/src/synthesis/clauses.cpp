#include "synthesis/clauses.hpp"

#include <z3++.h>

#include <algorithm>
#include <new>

#include "solver/ask_z3.hpp"

namespace ppsim::verifier::synthesis {
namespace {

constexpr std::size_t kBetweenLooks = 4096;  // clauses that are handed over between looks at the clock

ClauseAnswer unknown(std::string reason) {
  return {.outcome = ClauseAnswer::Outcome::unknown, .reason = std::move(reason)};
}

/// The variables of the clauses in Z3, and their negations.
struct Atoms {
  Atoms(z3::context& context, int count) : positive(context), negative(context) {
    for (int v = 0; v < count; ++v) {
      positive.push_back(context.constant(context.int_symbol(v), context.bool_sort()));
      negative.push_back(!positive.back());
    }
  }
  [[nodiscard]] Z3_ast operator[](Literal literal) const {
    const auto number = static_cast<unsigned>(literal.number());
    return literal.negated() ? negative[number] : positive[number];
  }
  z3::expr_vector positive;
  z3::expr_vector negative;
};

/// Whether all were handed over in time.
bool hand_over(const Clauses& clauses, const Atoms& atoms, z3::solver& solver, Clock::time_point deadline) {
  std::vector<Z3_ast> arguments;
  for (std::size_t i = 0; i < clauses.size(); ++i) {
    if (i % kBetweenLooks == 0 && Clock::now() > deadline) return false;
    arguments.clear();
    for (const Literal literal : clauses[i]) arguments.push_back(atoms[literal]);
    z3::context& context = solver.ctx();
    solver.add(
        z3::expr(context, Z3_mk_or(context, static_cast<unsigned>(arguments.size()), arguments.data())));
  }
  for (const Clauses::AtMost& some : clauses.at_most()) {
    if (Clock::now() > deadline) return false;
    arguments.clear();
    for (const Literal literal : some.literals) arguments.push_back(atoms[literal]);
    z3::context& context = solver.ctx();
    solver.add(z3::expr(context, Z3_mk_atmost(context, static_cast<unsigned>(arguments.size()),
                                              arguments.data(), static_cast<unsigned>(some.most))));
  }
  return true;
}

std::vector<bool> values_of(const z3::model& model, const Atoms& atoms) {
  std::vector<bool> values;
  for (unsigned v = 0; v < atoms.positive.size(); ++v)
    values.push_back(model.eval(atoms.positive[v], true).is_true());
  return values;
}

std::string text_of(Literal literal) {
  const std::string variable = "v" + std::to_string(literal.number());
  return literal.negated() ? "(not " + variable + ")" : variable;
}

/// Declarations and assertions.
std::string text_of(const Clauses& clauses) {
  std::string text;
  for (int v = 0; v < clauses.variables(); ++v) text += "(declare-const v" + std::to_string(v) + " Bool)\n";
  for (std::size_t i = 0; i < clauses.size(); ++i) {
    text += "(assert (or false";  // of a single literal the standard knows no `or`
    for (const Literal literal : clauses[i]) text += ' ' + text_of(literal);
    text += "))\n";
  }
  for (const Clauses::AtMost& some : clauses.at_most()) {
    text += "(assert (<= (+ 0";
    for (const Literal literal : some.literals) text += " (ite " + text_of(literal) + " 1 0)";
    text += ") " + std::to_string(some.most) + "))\n";
  }
  return text;
}

ClauseAnswer ask(const Clauses& clauses, const Asking& asking) {
  const Clock::time_point deadline = asking.deadline;
  if (Clock::now() >= deadline) return unknown(kTimeLimit);
  z3::context context;
  z3::solver solver(context, "QF_FD");
  const Atoms atoms(context, clauses.variables());
  if (!hand_over(clauses, atoms, solver, deadline)) return unknown(kTimeLimit);
  SolverOptions limits = asking.options;
  limits.timeout_s = std::chrono::duration<double>(deadline - Clock::now()).count();
  const SolverReply reply = check_within(solver, limits);
  if (limits.queries && limits.timeout_s > 0)
    limits.queries(query_of(asking.title, reply.answer, text_of(clauses)));
  switch (reply.answer) {
    case SolverQuery::Answer::unsat:
      return {.outcome = ClauseAnswer::Outcome::unsatisfiable};
    case SolverQuery::Answer::unknown:
      return unknown(reply.reason);
    case SolverQuery::Answer::sat:
      break;
  }
  return {.outcome = ClauseAnswer::Outcome::satisfiable, .values = values_of(solver.get_model(), atoms)};
}

}  // namespace

void Clauses::add(std::initializer_list<Literal> literals) {
  if (std::ranges::any_of(literals, [](Literal l) { return l.is_true(); })) return;
  std::ranges::copy_if(literals, std::back_inserter(literals_), [](Literal l) { return !l.is_false(); });
  ends_.push_back(literals_.size());
}

void Clauses::add_at_most(const std::vector<Literal>& literals, int most) {
  AtMost some{.literals = {}, .most = most};
  for (const Literal literal : literals) {
    if (literal.is_true()) --some.most;
    if (!literal.is_true() && !literal.is_false()) some.literals.push_back(literal);
  }
  if (some.most < 0) return add({});
  if (as_size(some.most) < some.literals.size()) at_most_.push_back(std::move(some));
}

ClauseAnswer satisfy(const Clauses& clauses, const Asking& asking) {
  for (std::size_t i = 0; i < clauses.size(); ++i) {
    if (clauses[i].empty()) return {.outcome = ClauseAnswer::Outcome::unsatisfiable};
  }
  try {
    return ask(clauses, asking);
  } catch (const z3::exception& error) {
    return unknown(std::string("Z3: ") + error.msg());
  } catch (const std::bad_alloc&) {
    return unknown(kMemoryLimit);
  }
}

}  // namespace ppsim::verifier::synthesis
