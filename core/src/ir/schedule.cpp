#include "ppsim/core/ir/schedule.hpp"

#include <algorithm>

#include "completeness.hpp"
#include "execution/fact_index.hpp"
#include "ppsim/core/execution/rank_ranges.hpp"
#include "ppsim/core/ir/check.hpp"
#include "rules.hpp"

namespace ppsim {
namespace {

/// Facts that a transfer between stages delivers; lowering adds those.
bool comes_from_elsewhere(FactKind kind) {
  return kind == FactKind::received_forward || kind == FactKind::received_backward;
}

/// Facts whose absence the completeness check reports.
bool is_cell_fact(FactKind kind) {
  return kind == FactKind::forward_done || kind == FactKind::backward_done || kind == FactKind::weight_done;
}

/// The rules that rows break.
struct Findings {
  Rules rows;   ///< about the content of rows
  Rules order;  ///< about the order in rows with the right content
};

template <class... Parts>
[[gnu::noinline]] void add_broken(Rules& rules, RankId rank, const Parts&... parts) {
  rules.broken("rank ", rank, ": ", parts...);
}

/// Checks some rows, one after another. Several may check other rows at the same time.
class RowChecker {
 public:
  RowChecker(const Pipeline& pipeline, Completeness& completeness)
      : pipeline_(pipeline), facts_(pipeline, FactIndex::OneRank()), completeness_(completeness) {}

  void check(RankId rank, std::span<const Cell> row) {
    facts_.forget();
    read_row(rank, row);
    if (found_.rows.hold()) check_order(rank, row);
  }

  [[nodiscard]] Findings take_findings() { return std::move(found_); }

 private:
  template <class... Parts>
  void broken(RankId rank, const Parts&... parts) {
    add_broken(found_.rows, rank, parts...);
  }

  void read_row(RankId rank, std::span<const Cell> row) {
    std::int32_t position = 0;
    for (const Cell& cell : row) {
      const InstructionId id(position++);
      const auto actions = cell.actions();
      if (cell.overlapped() &&
          (actions[0].kind != OpKind::forward || !gives_input_gradient(actions[1].kind))) {
        broken(rank, '(', actions[0], ';', actions[1], ")OVERLAP_F_B needs an F and a B or I");
      }
      for (const Action& action : actions) {
        if (stands(rank, action, id)) completeness_.count(action);
      }
    }
  }

  /// Whether an action may stand in the row, as cell `id`.
  bool stands(RankId rank, const Action& action, InstructionId id) {
    if (!ids_in_range(rank, action)) return false;
    if (names_peer_stage(action.kind)) {
      broken(rank, action, " is a transfer between stages, which lowering adds; expected computation only");
      return false;
    }
    if (facts_.add(rank, action, id)) return true;
    if (info(action.kind).subject == Subject::stage && pipeline_.rank_of(action.stage()) != rank) {
      broken(rank, action, " stands here, expected on rank ", pipeline_.rank_of(action.stage()));
    } else {
      broken(rank, action, " does not belong on this rank or its microbatch's route");
    }
    return false;
  }

  bool ids_in_range(RankId rank, const Action& action) {
    const OpInfo& row = info(action.kind);
    const int subjects = pipeline_.count(row.subject);
    const bool needs_number =
        row.microbatch == MicrobatchUse::required || row.microbatch == MicrobatchUse::update;
    const bool known = action.subject >= 0 && action.subject < subjects;
    const bool updates = known && pipeline_.counts_updates(action.kind, action.subject);
    const int numbers = updates ? pipeline_.updates() : pipeline_.microbatches();
    const bool to_rank = names_peer_rank(action.kind);
    const bool good = action.kind != OpKind::overlap && known && action.microbatch < numbers &&
                      (action.microbatch >= 0 || !needs_number) && action.slice < pipeline_.slices() &&
                      (!to_rank || (action.peer >= 0 && action.peer < pipeline_.ranks()));
    if (!good) {
      broken(rank, action, " is out of range: expected a subject below ", subjects, ", a number below ",
             numbers, ", a slice below ", pipeline_.slices());
    }
    return good;
  }

  void check_order(RankId rank, std::span<const Cell> row) {
    std::int32_t position = 0;
    for (const Cell& cell : row) {
      for (const Action& action : cell.actions()) check_requirements(rank, action, InstructionId(position));
      ++position;
    }
  }

  void check_requirements(RankId rank, const Action& action, InstructionId at) {
    if (facts_.has_needs_before(action, at)) return;
    for_each_required(pipeline_, action, rank, [&](const Fact& fact, bool optional) PPSIM_IN_PLACE {
      if (comes_from_elsewhere(fact.kind)) return;
      const InstructionId provider = facts_.provider(rank, fact);
      if (provider.valid() && provider >= at) {
        add_broken(found_.order, rank, action, " at position ", at, " needs ", fact,
                   ", which stands at position ", provider);
      } else if (!provider.valid() && !optional && !is_cell_fact(fact.kind)) {
        add_broken(found_.order, rank, action, " needs ", fact, ", which is not on the rank");
      }
    });
  }

  const Pipeline& pipeline_;
  FactIndex facts_;
  Completeness& completeness_;
  Findings found_;
};

/// The number of F and B of a rank, which most rows consist of. All rows together get room for at most kMax:
/// a file with few actions may name more microbatches and ranks than fit into memory.
std::size_t usual_cells(const Pipeline& pipeline, RankId rank) {
  constexpr std::size_t kMax = std::size_t{1} << 23U;
  const std::size_t passes =
      2 * pipeline.stages_of(rank).size() * as_size(pipeline.microbatches()) * as_size(pipeline.slices());
  return std::min(passes, kMax / as_size(pipeline.ranks()));
}

/// Every rule that rows break; nothing where they break none.
std::string broken_rules(const Pipeline& pipeline, const IdVector<RankId, std::vector<Cell>>& rows) {
  std::size_t cells = 0;
  for (const std::vector<Cell>& row : rows) cells += row.size();
  const std::vector<RankRange> ranges = rank_ranges(pipeline.ranks(), cells);
  Completeness completeness(pipeline);
  const std::vector<Findings> parts = all_at_once(ranges.size(), [&](std::size_t i) {
    RowChecker checker(pipeline, completeness);
    for (RankId rank = ranges[i].first; rank < ranges[i].last; rank = next(rank))
      checker.check(rank, rows[rank]);
    return checker.take_findings();
  });
  Findings all;
  for (const Findings& part : parts) {
    all.rows.add(part.rows);
    all.order.add(part.order);
  }
  if (!all.rows.hold()) return all.rows.text();
  completeness.check([&](RankId rank, const std::string& text) { add_broken(all.order, rank, text); });
  return all.order.text();
}

}  // namespace

std::size_t Schedule::action_count() const {
  std::size_t count = 0;
  for (const std::vector<Cell>& row : rows_) {
    for (const Cell& cell : row) count += cell.actions().size();
  }
  return count;
}

std::ostream& operator<<(std::ostream& out, const Schedule& schedule) {
  return out << schedule.name() << ": " << schedule.pipeline() << ", " << schedule.action_count()
             << " actions";
}

ScheduleBuilder::ScheduleBuilder(std::string name, Pipeline pipeline)
    : name_(std::move(name)), pipeline_(std::move(pipeline)), rows_(as_size(pipeline_.ranks())) {}

ScheduleBuilder::ScheduleBuilder(std::string name, Pipeline pipeline,
                                 IdVector<RankId, std::vector<Cell>> rows)
    : name_(std::move(name)), pipeline_(std::move(pipeline)), rows_(std::move(rows)) {
  PPSIM_CHECK(rows_.size() == static_cast<std::size_t>(pipeline_.ranks()), "a schedule has one row per rank");
}

ScheduleBuilder& ScheduleBuilder::add(RankId rank, Cell cell) {
  std::vector<Cell>& row = rows_[rank];
  if (row.capacity() == 0) row.reserve(usual_cells(pipeline_, rank));
  row.push_back(cell);
  return *this;
}

ScheduleBuilder& ScheduleBuilder::add(OpKind kind, StageId stage, MicrobatchId mb, SliceId slice) {
  return add(pipeline_.rank_of(stage), Cell(make_action(kind, stage.value(), mb.value(), slice.value())));
}

Expected<Schedule> ScheduleBuilder::build() const& { return ScheduleBuilder(*this).build(); }

Expected<Schedule> ScheduleBuilder::build() && {
  if (std::string broken = broken_rules(pipeline_, rows_); !broken.empty())
    return make_error(ErrorCode::ill_formed, std::move(broken));
  return Schedule(std::move(name_), std::move(pipeline_), std::move(rows_));
}

}  // namespace ppsim
