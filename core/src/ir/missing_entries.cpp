#include "ppsim/core/ir/missing_entries.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "ppsim/core/execution/rank_ranges.hpp"
#include "ppsim/core/memory/tensors.hpp"
#include "table_lookup.hpp"

namespace ppsim {
namespace {

/// The values of a map, by key.
template <class Kind, class Key>
std::vector<Key> values(const std::map<Kind, Key>& first) {
  std::vector<Key> keys;
  for (const auto& [kind, key] : first) keys.push_back(key);
  return keys;
}

/// The first class of each kind without an entry.
class CostsWithout {
 public:
  explicit CostsWithout(const CostTable& costs) : entries_(costs.entries()) {
    for (const OpInfo& row : kOpTable)
      names_all_[static_cast<std::size_t>(row.kind)] = entries_.contains(CostClass{.kind = row.kind});
  }

  /// Whether an entry for all of its kind is there for each action of a Program without pairs, as for those
  /// of any size.
  [[nodiscard]] bool names_all_of(const Program& program) const {
    if (program.all_actions().size() != program.size()) return false;
    std::array<bool, kOpKindCount> occurs = {};
    for (const Action& action : program.all_actions()) occurs[static_cast<std::size_t>(action.kind)] = true;
    return std::ranges::all_of(kOpTable, [&](const OpInfo& row) {
      const auto kind = static_cast<std::size_t>(row.kind);
      return !occurs[kind] || is_receive(row.kind) || names_all_[kind];
    });
  }

  /// The keys that a cell or an instruction looks up, a transfer by its SEND.
  void add(std::span<const Action> actions, InstructionForm form) {
    if (form == InstructionForm::overlap) return add(cost_class_of(actions, form));
    for (const Action& action : actions) {
      if (is_receive(action.kind) || names_all_[static_cast<std::size_t>(action.kind)]) continue;
      const std::optional<CostClass>& last = last_[static_cast<std::size_t>(action.kind)];
      const bool known =
          last && last->subject == action.subject && last->peer == action.peer && last->slice == action.slice;
      if (!known) add(cost_class_of(action));
    }
  }

  /// Adds what another one found in later instructions.
  void add(const CostsWithout& later) { first_.insert(later.first_.begin(), later.first_.end()); }

  [[nodiscard]] std::vector<CostClass> first() const { return values(first_); }

 private:
  void add(const CostClass& key) {
    std::optional<CostClass>& last = last_[static_cast<std::size_t>(key.kind)];
    if (last == key) return;
    last = key;
    if (!look_up(entries_, key)) first_.emplace(key.kind, key);
  }

  const std::map<CostClass, Nanoseconds>& entries_;
  std::array<bool, kOpKindCount> names_all_ = {};  ///< by kind: whether one entry is for all of it
  std::map<OpKind, CostClass> first_;
  /// Looked up last, by kind: actions of a kind that follow each other are mostly of one class.
  std::array<std::optional<CostClass>, kOpKindCount> last_ = {};
};

using SizeKind = std::pair<TensorKind, OpKind>;

SizeKind kind_of(const SizeClass& key) { return {key.kind, key.op}; }

}  // namespace

std::vector<CostClass> missing_costs(const CostTable& costs, const Program& program) {
  if (CostsWithout(costs).names_all_of(program)) return {};
  const auto parts = by_rank_ranges(program, [&](const RankRange& ranks) {
    CostsWithout missing(costs);
    for (InstructionId id = program.first(ranks.first); id < program.first(ranks.last); id = next(id))
      missing.add(program.actions(id), program.instruction(id).form);
    return missing;
  });
  CostsWithout all(costs);
  for (const CostsWithout& part : parts) all.add(part);
  return all.first();
}

std::vector<CostClass> missing_costs(const CostTable& costs, const Schedule& schedule) {
  CostsWithout missing(costs);
  for (const RankId rank : schedule.pipeline().rank_ids()) {
    for (const Cell& cell : schedule.row(rank))
      missing.add(cell.actions(), cell.overlapped() ? InstructionForm::overlap : InstructionForm::single);
  }
  return missing.first();
}

std::vector<SizeClass> missing_sizes(const SizeTable& sizes, const Program& program) {
  std::set<SizeKind> listed;
  for (const auto& [key, size] : sizes.entries()) listed.insert(kind_of(key));
  if (listed.empty()) return {};
  std::map<SizeKind, SizeClass> first;
  for (const Tensor& tensor : tensor_table(program).tensors) {
    const SizeClass& key = tensor.size_class;
    if (listed.contains(kind_of(key)) && !look_up(sizes.entries(), key)) first.emplace(kind_of(key), key);
  }
  return values(first);
}

}  // namespace ppsim
