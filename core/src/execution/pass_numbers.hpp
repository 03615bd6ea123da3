#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ppsim/core/ir/action.hpp"
#include "ppsim/core/ir/pipeline.hpp"

namespace ppsim {

/// Dense numbers of the passes of a pipeline, and of the transfers between its stages, by route, kind and
/// stage. Where microbatches have no slices and read one version, what the rules say of a pass of one
/// microbatch holds for all of its route, so that tables by these numbers take the place of the rules.
class PassNumbers {
 public:
  static constexpr std::array kPasses = {OpKind::forward, OpKind::backward, OpKind::backward_input,
                                         OpKind::backward_weight, OpKind::recompute};
  static constexpr std::array kTransfers = {OpKind::send_forward, OpKind::recv_forward, OpKind::send_backward,
                                            OpKind::recv_backward};

  explicit PassNumbers(const Pipeline& pipeline)
      : pipeline_(pipeline),
        is_regular_(pipeline.slices() == 1 && !pipeline.asynchronous() &&
                    pipeline.spec().routes.size() * stages() <= kMaxRows) {
    std::uint8_t number = 0;
    for (const OpKind kind : kPasses) number_of_[static_cast<std::size_t>(kind)] = number++;
    for (const OpKind kind : kTransfers) number_of_[static_cast<std::size_t>(kind)] = number++;
  }

  /// 0 where microbatches differ.
  [[nodiscard]] std::size_t count() const {
    return is_regular_ ? pipeline_.spec().routes.size() * kKinds * stages() : 0;
  }
  [[nodiscard]] bool has(const Action& action) const {
    return is_regular_ && number_of_[static_cast<std::size_t>(action.kind)] != kNoNumber;
  }
  /// Requires: has(action).
  [[nodiscard]] std::size_t operator()(const Action& action) const {
    const std::size_t row =
        pipeline_.route_of(action.mb()).index() * kKinds + number_of_[static_cast<std::size_t>(action.kind)];
    return row * stages() + action.stage().index();
  }
  /// Calls visit(action) once for each number of an action of one of these kinds; a transfer has no peer.
  template <class Visit>
  void for_each(std::span<const OpKind> kinds, Visit&& visit) const {
    if (!is_regular_) return;
    std::vector<MicrobatchId> first(pipeline_.spec().routes.size());
    for (MicrobatchId mb(pipeline_.microbatches() - 1); mb.valid(); mb = MicrobatchId(mb.value() - 1))
      first[pipeline_.route_of(mb).index()] = mb;
    for (const MicrobatchId mb : first) {
      for (const StageId stage : pipeline_.stage_ids()) {
        if (!mb.valid() || !pipeline_.on_route(stage, mb)) continue;
        for (const OpKind kind : kinds) visit(make_action(kind, stage.value(), mb.value()));
      }
    }
  }

 private:
  static constexpr std::size_t kKinds = kPasses.size() + kTransfers.size();
  static constexpr std::size_t kMaxRows = 1 << 18;  // routes and stages: a file may name many and use few
  static constexpr std::uint8_t kNoNumber = 255;

  [[nodiscard]] static constexpr std::array<std::uint8_t, kOpKindCount> no_numbers() {
    std::array<std::uint8_t, kOpKindCount> numbers = {};
    numbers.fill(kNoNumber);
    return numbers;
  }
  [[nodiscard]] std::size_t stages() const { return static_cast<std::size_t>(pipeline_.stages()); }

  const Pipeline& pipeline_;
  bool is_regular_;
  std::array<std::uint8_t, kOpKindCount> number_of_ = no_numbers();  ///< by kind
};

}  // namespace ppsim
