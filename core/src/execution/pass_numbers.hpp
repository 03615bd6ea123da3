#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "ppsim/core/ir/action.hpp"
#include "ppsim/core/ir/pipeline.hpp"

namespace ppsim {

/// Dense numbers of the passes of a pipeline, and of the transfers between its stages, by route, kind and
/// stage. Where microbatches have no slices and read one version, what the rules say of a pass of one
/// microbatch holds for all of its route, so that tables by these numbers take the place of the rules.
class PassNumbers {
 public:
  explicit PassNumbers(const Pipeline& pipeline)
      : pipeline_(pipeline),
        is_regular_(pipeline.slices() == 1 && !pipeline.asynchronous() &&
                    pipeline.spec().routes.size() * stages() <= kMaxRows) {
    std::uint8_t number = 0;
    for (const OpKind kind : kNumbered) number_of_[static_cast<std::size_t>(kind)] = number++;
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

 private:
  static constexpr std::array kNumbered = {
      OpKind::forward,         OpKind::backward,      OpKind::backward_input,
      OpKind::backward_weight, OpKind::recompute,     OpKind::send_forward,
      OpKind::recv_forward,    OpKind::send_backward, OpKind::recv_backward};
  static constexpr std::size_t kKinds = kNumbered.size();
  static constexpr std::size_t kMaxRows = 1 << 18;  // routes and stages: a file may name many and use few
  static constexpr std::uint8_t kNoNumber = 255;

  [[nodiscard]] static constexpr std::array<std::uint8_t, kOpKindCount> no_numbers() {
    std::array<std::uint8_t, kOpKindCount> numbers = {};
    numbers.fill(kNoNumber);
    return numbers;
  }
  [[nodiscard]] std::size_t stages() const { return as_size(pipeline_.stages()); }

  const Pipeline& pipeline_;
  bool is_regular_;
  std::array<std::uint8_t, kOpKindCount> number_of_ = no_numbers();  ///< by kind
};

}  // namespace ppsim
