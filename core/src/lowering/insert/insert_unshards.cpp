#include "insert_unshards.hpp"

#include <algorithm>

namespace ppsim::lowering {
namespace {

constexpr std::size_t kLookAhead = 3;

using Stages = std::vector<std::int32_t>;

bool contains(const Stages& stages, std::int32_t stage) {
  return std::ranges::find(stages, stage) != stages.end();
}

bool uses_parameters(const Action& action) { return computes_stage(action.kind); }

/// A stage and the cell of a row that computes on it next.
struct NextUse {
  std::int32_t stage;
  std::size_t cell;
};

/// The first three of the next uses; a fourth where an overlapped pair brings the third and the fourth.
Stages first_stages(const std::vector<NextUse>& uses) {
  Stages stages;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    if (i >= kLookAhead && uses[i].cell != uses[kLookAhead - 1].cell) break;
    stages.push_back(uses[i].stage);
  }
  return stages;
}

/// For every cell of a row the next distinct stages that compute, this cell's first.
std::vector<Stages> stages_ahead(std::span<const Cell> row) {
  std::vector<Stages> result(row.size());
  std::vector<NextUse> ahead;
  for (std::size_t i = row.size(); i-- > 0;) {
    const std::span<const Action> actions = row[i].actions();
    for (auto a = actions.rbegin(); a != actions.rend(); ++a) {
      if (!uses_parameters(*a)) continue;
      std::erase_if(ahead, [&](const NextUse& use) { return use.stage == a->subject; });
      ahead.insert(ahead.begin(), {a->subject, i});
    }
    result[i] = first_stages(ahead);
  }
  return result;
}

/// The stages whose parameters are gathered at a place of a row, and the cells that make them so.
class Gathered {
 public:
  explicit Gathered(std::vector<Cell>& cells) : cells_(cells) {}

  void keep_only(const Stages& needed) {
    Stages kept;
    std::ranges::sort(stages_);
    for (const std::int32_t stage : stages_) {
      if (contains(needed, stage)) {
        kept.push_back(stage);
      } else {
        cells_.emplace_back(make_action(OpKind::reshard, stage, -1));
      }
    }
    stages_ = std::move(kept);
  }

  void gather(const Stages& needed) {
    for (const std::int32_t stage : needed) {
      if (contains(stages_, stage)) continue;
      stages_.push_back(stage);
      cells_.emplace_back(make_action(OpKind::unshard, stage, -1));
    }
  }

 private:
  std::vector<Cell>& cells_;
  Stages stages_;
};

std::vector<Cell> with_unshards(std::span<const Cell> row) {
  const std::vector<Stages> ahead = stages_ahead(row);
  std::vector<Cell> cells;
  Gathered gathered(cells);
  for (std::size_t i = 0; i < row.size(); ++i) {
    const std::span<const Action> actions = row[i].actions();
    if (std::ranges::any_of(actions, uses_parameters)) {
      gathered.keep_only(ahead[i]);
      gathered.gather(ahead[i]);
    }
    cells.push_back(row[i]);
  }
  gathered.keep_only({});
  return cells;
}

}  // namespace

void insert_unshards(CellRows& rows) {
  for (const RankId rank : rows.rank_ids()) rows.replace(rank, with_unshards(rows[rank]));
}

}  // namespace ppsim::lowering
