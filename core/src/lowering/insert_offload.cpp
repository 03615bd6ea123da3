#include "lowering/insert_offload.hpp"

#include <algorithm>
#include <set>

#include "lowering/cells.hpp"

namespace ppsim::lowering {
namespace {

Action with_kind(Action action, OpKind kind) {
  action.kind = kind;
  return action;
}

/// The next step that is not idle, or an idle one at the end.
Step next_step(std::span<const Step> row, std::size_t position) {
  for (std::size_t i = position + 1; i < row.size(); ++i) {
    if (!row[i].idle()) return row[i];
  }
  return {};
}

bool holds_backward_of(const Step& step, const Action& forward) {
  return std::any_of(step.actions().begin(), step.actions().end(), [&](const Action& a) {
    return gives_input_gradient(a.kind) && with_kind(a, OpKind::forward) == forward;
  });
}

class RowOffloader {
 public:
  RowOffloader(const Pipeline& pipeline, std::span<const Step> row, std::vector<char>& offloaded)
      : pipeline_(pipeline), row_(row), offloaded_(offloaded) {
    for (const Step& step : row) {
      for (const Action& a : step.actions()) {
        runs_backward_ = runs_backward_ || gives_input_gradient(a.kind);
        if (a.kind == OpKind::recompute) recomputed_.insert(with_kind(a, OpKind::forward));
      }
    }
  }

  std::vector<Step> run() {
    for (std::size_t i = 0; i < row_.size(); ++i) {
      reload_before(row_[i]);
      steps_.push_back(row_[i]);
      if (runs_backward_) offload_after(row_[i], next_step(row_, i));
    }
    return std::move(steps_);
  }

 private:
  void reload_before(const Step& step) {
    for (const Action& a : step.actions()) {
      if (!gives_input_gradient(a.kind) || offloaded_[cell_of(pipeline_, a)] == 0) continue;
      steps_.emplace_back(with_kind(a, OpKind::reload));
    }
  }

  void offload_after(const Step& step, const Step& next) {
    for (const Action& a : step.actions()) {
      if (a.kind != OpKind::forward || holds_backward_of(next, a)) continue;
      if (recomputed_.contains(a)) continue;  // its F saves nothing that could move
      offloaded_[cell_of(pipeline_, a)] = 1;
      steps_.emplace_back(with_kind(a, OpKind::offload));
    }
  }

  const Pipeline& pipeline_;
  std::span<const Step> row_;
  std::vector<char>& offloaded_;
  bool runs_backward_ = false;
  std::set<Action> recomputed_;  ///< forwards whose activations an R makes
  std::vector<Step> steps_;
};

}  // namespace

void insert_offload(const Pipeline& pipeline, StepRows& rows) {
  std::vector<char> offloaded(cell_count(pipeline), 0);
  for (int r = 0; r < rows.ranks(); ++r) {
    rows.replace(RankId(r), RowOffloader(pipeline, rows[RankId(r)], offloaded).run());
  }
}

}  // namespace ppsim::lowering
