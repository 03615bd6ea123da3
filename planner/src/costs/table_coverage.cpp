#include "ppsim/planner/costs/table_coverage.hpp"

#include <sstream>
#include <type_traits>

namespace ppsim::planner {
namespace {

/// The entry that covers all of a kind.
void print_entry(std::ostream& out, const CostClass& key) {
  out << R"({"kind":")" << info(key.kind).text << R"(","ns":...})";
}

void print_entry(std::ostream& out, const SizeClass& key) {
  out << R"({"tensor":")" << info(key.kind).name << '"';
  if (key.op != OpKind::forward) out << R"(,"op":")" << info(key.op).text << '"';
  out << R"(,"bytes":...})";
}

/// Prints the stage or block, peer and slice of a class, after its kind.
void print_place(std::ostream& out, Subject subject, const auto& key) {
  if (key.subject >= 0) out << " of " << subject_name(subject) << ' ' << key.subject;
  if (key.peer >= 0) out << " with peer " << key.peer;
  if (key.slice > 0) out << ", slice " << key.slice;
}

void print_class(std::ostream& out, const CostClass& key) {
  out << info(key.kind).text;
  print_place(out, info(key.kind).subject, key);
}

void print_class(std::ostream& out, const SizeClass& key) {
  out << info(key.kind).name;
  if (key.kind == TensorKind::workspace) out << " of " << info(key.op).text;
  print_place(out, info(key.kind).subject, key);
}

/// The missing costs, and the entries that would give them.
template <class Key>
Expected<void> none_missing(const std::vector<Key>& missing, const std::string& file) {
  constexpr bool kCosts = std::is_same_v<Key, CostClass>;
  if (missing.empty()) return {};
  std::ostringstream found;
  std::ostringstream expected;
  for (const Key& key : missing) {
    found << (&key == missing.data() ? (kCosts ? "no cost of " : "no size of ") : ", ");
    expected << (&key == missing.data() ? "an entry such as " : " and ");
    print_class(found, key);
    print_entry(expected, key);
  }
  expected << ", 0 where it is free";
  return make_error(file.empty() ? ErrorCode::bad_argument : ErrorCode::bad_file,
                    kCosts ? "the table lacks the costs of actions"
                           : "the table lacks sizes of tensors while others of their kind have one",
                    {.file = file, .found = found.str(), .expected = expected.str()});
}

}  // namespace

Expected<void> check_costs(const CostTable& costs, const Program& program, const std::string& file) {
  return none_missing(missing_costs(costs, program), file);
}

Expected<void> check_costs(const CostTable& costs, const Schedule& schedule, const std::string& file) {
  return none_missing(missing_costs(costs, schedule), file);
}

Expected<void> check_sizes(const SizeTable& sizes, const Program& program, const std::string& file) {
  return none_missing(missing_sizes(sizes, program), file);
}

Tables with_zeros(Tables tables) {
  const auto costs = tables.costs.entries();
  for (const OpInfo& kind : kOpTable) {
    if (kind.direction != Direction::receive && !costs.contains({kind.kind}))
      tables.costs.set({kind.kind}, 0);
  }
  const auto sizes = tables.sizes.entries();
  for (const auto& [key, size] : sizes) {
    const SizeClass all{.kind = key.kind, .op = key.op};
    if (!sizes.contains(all)) tables.sizes.set(all, 0);
  }
  return tables;
}

}  // namespace ppsim::planner
