#pragma once

#include <cstddef>
#include <vector>

#include "ppsim/core/ir/action.hpp"
#include "ppsim/core/ir/pipeline.hpp"

namespace ppsim {

/// Dense numbers of the passes of a pipeline by route, kind and stage. Where microbatches have no slices and
/// read one version, what the rules say of a pass of one microbatch holds for all of its route, so that
/// tables by these numbers take the place of the rules.
class PassNumbers {
 public:
  explicit PassNumbers(const Pipeline& pipeline)
      : pipeline_(pipeline), is_regular_(pipeline.slices() == 1 && !pipeline.asynchronous()) {}

  /// 0 where microbatches differ.
  [[nodiscard]] std::size_t count() const {
    return is_regular_ ? pipeline_.spec().routes.size() * kOpKindCount * stages() : 0;
  }
  /// Whether an action is a pass that has a number.
  [[nodiscard]] bool has(const Action& action) const { return is_regular_ && is_pass(action.kind); }
  /// Requires: has(action).
  [[nodiscard]] std::size_t operator()(const Action& action) const {
    const std::size_t row =
        pipeline_.route_of(action.mb()).index() * kOpKindCount + static_cast<std::size_t>(action.kind);
    return row * stages() + action.stage().index();
  }
  /// Calls visit(action) once for each number that some pass has.
  template <class Visit>
  void for_each(Visit&& visit) const {
    if (!is_regular_) return;
    std::vector<MicrobatchId> first(pipeline_.spec().routes.size());
    for (MicrobatchId mb(pipeline_.microbatches() - 1); mb.valid(); mb = MicrobatchId(mb.value() - 1))
      first[pipeline_.route_of(mb).index()] = mb;
    for (const MicrobatchId mb : first) {
      for (const StageId stage : pipeline_.stage_ids()) {
        if (!mb.valid() || !pipeline_.on_route(stage, mb)) continue;
        for (const OpKind kind : {OpKind::forward, OpKind::backward, OpKind::backward_input,
                                  OpKind::backward_weight, OpKind::recompute})
          visit(make_action(kind, stage.value(), mb.value()));
      }
    }
  }

 private:
  [[nodiscard]] static bool is_pass(OpKind kind) {
    return kind == OpKind::forward || kind == OpKind::backward || kind == OpKind::backward_input ||
           kind == OpKind::backward_weight || kind == OpKind::recompute;
  }
  [[nodiscard]] std::size_t stages() const { return static_cast<std::size_t>(pipeline_.stages()); }

  const Pipeline& pipeline_;
  bool is_regular_;
};

}  // namespace ppsim
