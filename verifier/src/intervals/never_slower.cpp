#include "ppsim/verifier/intervals/never_slower.hpp"

#include <algorithm>
#include <limits>
#include <sstream>

#include "../properties/properties.hpp"
#include "compare_methods.hpp"
#include "ppsim/core/ir/hash.hpp"

namespace ppsim::verifier {
namespace {

/// The longest paths of a Program that runs to its end.
Expected<PathGraph> paths_of(const Program& program, const NeverSlowerQuestion& question,
                             std::string_view which) {
  const TransportCapabilities& capabilities = question.capabilities;
  const AnalyzedProgram analyzed(program, capabilities);
  if (!analyzed.finishes()) {
    return make_error(ErrorCode::bad_argument, "what cannot finish has no makespan: verify it first",
                      {.found = std::string(which), .expected = "matched and free of deadlock"});
  }
  if (capabilities.residency && *capabilities.residency < max_in_flight(program)) {
    return make_error(ErrorCode::bad_argument,
                      "under a residency limit times depend on which operation takes a place",
                      {.found = std::to_string(*capabilities.residency)});
  }
  return path_graph(program, analyzed.timed_graph(), analyzed.order());
}

std::string text(const Fraction& value) {
  const Integer divisor = gcd(value.numerator, value.denominator);
  const Integer denominator = value.denominator / divisor;
  std::ostringstream out;
  out << value.numerator / divisor;
  if (denominator != 1) out << '/' << denominator;
  return out.str();
}

double to_double(const Fraction& value, Nanoseconds unit) {
  using Rational = boost::multiprecision::cpp_rational;
  if (value.denominator == 0) return std::numeric_limits<double>::infinity();
  return static_cast<double>(Rational(value.numerator, value.denominator) * unit);
}

/// Turns points of a box into costs in nanoseconds, and looks at these again.
class Reporter {
 public:
  Reporter(const PricedPair& pair, const CostSpace& space) : pair_(pair), space_(space) {}

  [[nodiscard]] ComparedAt at(const CostPoint& point) const {
    ComparedAt result;
    for (const CostVariable& variable : space_.variables()) result.values.push_back(variable.least);
    for (std::size_t i = 0; i < pair_.box.dimension(); ++i) {
      const Integer scaled = point[i + 1] * pair_.box.unit;
      const Integer value = (2 * scaled + point[0]) / (2 * point[0]);
      result.values[as_size(pair_.box.variables[i])] = static_cast<Nanoseconds>(value);
    }
    const CostTable costs = space_.at(result.values);
    result.first = makespan(pair_.first.graph, costs);
    result.second = makespan(pair_.second.graph, costs);
    return result;
  }

  /// Costs under which the first Program is slower; exact ones where none are near in whole nanoseconds.
  [[nodiscard]] Slower slower(const CostPoint& point) const {
    Slower result{at(point)};
    if (result.at.first <= result.at.second) result.at.exact = exact(point);
    return result;
  }

  [[nodiscard]] Extreme extreme(const Bracket& bracket, Nanoseconds unit) const {
    return {to_double(bracket.least, unit), to_double(bracket.most, unit), at(bracket.at)};
  }

 private:
  static Nanoseconds makespan(const PathGraph& graph, const CostTable& costs) {
    std::vector<Nanoseconds> durations;
    for (const CostClass& cost_class : graph.classes) durations.push_back(costs(cost_class));
    return end_times(graph, durations)[graph.end];
  }

  [[nodiscard]] std::string exact(const CostPoint& point) const {
    std::string result;
    for (std::size_t i = 0; i < pair_.box.dimension(); ++i) {
      result += i > 0 ? ", " : "";
      result += space_.variables()[as_size(pair_.box.variables[i])].name + " = ";
      result += text({point[i + 1] * pair_.box.unit, point[0]}) + " ns";
    }
    for (const PricedPaths* paths : {&pair_.first, &pair_.second}) {
      result += paths == &pair_.first ? "; " : " against ";
      result += text({length_at(*paths, point) * pair_.box.unit, point[0]});
    }
    return result + " ns";
  }

  const PricedPair& pair_;
  const CostSpace& space_;
};

NeverSlowerAnswer answer_of(const Comparison& found, const PricedPair& pair, const CostSpace& space) {
  const Reporter reporter(pair, space);
  NeverSlowerAnswer answer;
  switch (found.outcome) {
    case Comparison::Outcome::never_slower:
      answer.verdict = Proved{};
      break;
    case Comparison::Outcome::slower:
      answer.verdict = reporter.slower(found.slower_at);
      break;
    case Comparison::Outcome::unknown:
      answer.verdict = Unknown{found.reason};
      break;
  }
  if (found.ratio) answer.ratio = reporter.extreme(*found.ratio, 1);
  if (found.difference) answer.difference = reporter.extreme(*found.difference, pair.box.unit);
  answer.evaluated = found.evaluated;
  answer.paths = found.paths;
  return answer;
}

/// Whether no makespan of a whole number of nanoseconds is beyond 64 bits.
Expected<void> check_range(const PricedPaths& paths, const CostBox& box) {
  const CostPoint most = box.corner(std::vector<bool>(box.dimension(), true));
  Integer all = 0;
  for (const PathPoint& point : paths.graph.points) {
    if (point.cost_class != PathPoint::kNoCost) all += dot(paths.costs[as_size(point.cost_class)], most);
  }
  if (all * box.unit <= std::numeric_limits<Nanoseconds>::max()) return {};
  return make_error(ErrorCode::bad_argument, "the costs add up to more than 64 bits of nanoseconds");
}

std::string pair_title(const NeverSlowerQuestion& question) {
  return "Programs " + program_hash(question.first) + " and " + program_hash(question.second);
}

bool by_vertices(const NeverSlowerQuestion& question, const CostBox& box) {
  switch (question.method) {
    case CompareMethod::automatic:
      return box.dimension() <= kMaxVertexVariables;
    case CompareMethod::vertices:
      return true;
    case CompareMethod::paths:
      return false;
  }
  return true;
}

}  // namespace

Expected<NeverSlowerAnswer> never_slower(const NeverSlowerQuestion& question) {
  const Deadline deadline(question.limits.timeout_s);
  PPSIM_ASSIGN_OR_RETURN(auto first, paths_of(question.first, question, "the first Program"));
  PPSIM_ASSIGN_OR_RETURN(auto second, paths_of(question.second, question, "the second Program"));
  const PricedPair pair = price(std::move(first), std::move(second), question.costs);
  for (const PricedPaths* paths : {&pair.first, &pair.second}) {
    PPSIM_RETURN_IF_ERROR(check_range(*paths, pair.box));
  }
  const bool vertices = by_vertices(question, pair.box);
  const Comparison found = vertices ? compare_by_vertices(pair, deadline)
                                    : compare_by_paths(pair, question.limits, pair_title(question));
  NeverSlowerAnswer answer = answer_of(found, pair, question.costs);
  answer.method = vertices ? "vertices" : "paths";
  answer.seconds = question.limits.timeout_s - deadline.remaining_s();
  return answer;
}

std::string to_string(const CostSpace& costs, const ComparedAt& at) {
  if (!at.exact.empty()) return at.exact;
  std::ostringstream out;
  for (std::size_t i = 0; i < at.values.size(); ++i)
    out << (i > 0 ? ", " : "") << costs.variables()[i].name << " = " << at.values[i] << " ns";
  out << ": " << at.first << " against " << at.second << " ns";
  return out.str();
}

}  // namespace ppsim::verifier
