#include "smt2_text.hpp"

#include <map>
#include <set>
#include <vector>

namespace ppsim::verifier {
namespace {

/// The declarations in the terms of a query, and its bounds as sums.
class Terms {
 public:
  explicit Terms(z3::context& context) : bounds_(context), sums_(context) {}

  void collect(const z3::expr& root) {
    std::vector<z3::expr> open = {root};
    while (!open.empty()) {
      const z3::expr term = open.back();
      open.pop_back();
      if (!term.is_app() || !seen_.insert(term.id()).second) continue;
      const Z3_decl_kind kind = term.decl().decl_kind();
      if (kind == Z3_OP_UNINTERPRETED) declarations_.emplace(term.decl().id(), term.decl().to_string());
      if (is_bound(kind)) {
        bounds_.push_back(term);
        sums_.push_back(as_sum(term, kind));
      }
      for (unsigned i = 0; i < term.num_args(); ++i) open.push_back(term.arg(i));
    }
  }

  /// By the order in which they were made.
  [[nodiscard]] const std::map<unsigned, std::string>& declarations() const { return declarations_; }
  [[nodiscard]] z3::expr portable(z3::expr term) const {
    return bounds_.empty() ? term : term.substitute(bounds_, sums_);
  }

 private:
  static bool is_bound(Z3_decl_kind kind) {
    return kind == Z3_OP_PB_AT_MOST || kind == Z3_OP_PB_AT_LEAST || kind == Z3_OP_PB_LE ||
           kind == Z3_OP_PB_GE || kind == Z3_OP_PB_EQ;
  }

  /// The bound is the first parameter of the declaration, the weights, where there are any, the others.
  static z3::expr as_sum(const z3::expr& term, Z3_decl_kind kind) {
    z3::context& context = term.ctx();
    const auto parameter = [&](unsigned i) {
      return context.int_val(Z3_get_decl_int_parameter(context, term.decl(), i));
    };
    const bool weighted = kind != Z3_OP_PB_AT_MOST && kind != Z3_OP_PB_AT_LEAST;
    z3::expr_vector parts(context);
    for (unsigned i = 0; i < term.num_args(); ++i)
      parts.push_back(
          z3::ite(term.arg(i), weighted ? parameter(i + 1) : context.int_val(1), context.int_val(0)));
    const z3::expr sum = z3::sum(parts);
    if (kind == Z3_OP_PB_EQ) return sum == parameter(0);
    return kind == Z3_OP_PB_AT_MOST || kind == Z3_OP_PB_LE ? sum <= parameter(0) : sum >= parameter(0);
  }

  std::set<unsigned> seen_;
  std::map<unsigned, std::string> declarations_;
  z3::expr_vector bounds_;
  z3::expr_vector sums_;
};

}  // namespace

std::string smt2_text(const z3::expr_vector& assertions) {
  Terms terms(assertions.ctx());
  for (unsigned i = 0; i < assertions.size(); ++i) terms.collect(assertions[i]);
  std::string text;
  for (const auto& [id, declaration] : terms.declarations()) text += declaration + '\n';
  for (unsigned i = 0; i < assertions.size(); ++i)
    text += "(assert " + terms.portable(assertions[i]).to_string() + ")\n";
  return text;
}

}  // namespace ppsim::verifier
