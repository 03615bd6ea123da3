#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ppsim/core/memory/slot_plan.hpp"
#include "ppsim/core/memory/tensor_order.hpp"

namespace ppsim {

/// Tensors of one rank as nodes, numbered in the order of their birth in one run, and which of them may be
/// alive at once in some timing.
class ConflictGraph {
 public:
  /// Gives up, incomplete, where the limits do not suffice.
  ConflictGraph(const TensorOrder& order, std::vector<std::uint32_t> by_birth, const SlotLimits& limits);

  [[nodiscard]] bool complete() const { return complete_; }
  [[nodiscard]] std::size_t pairs() const { return items_.size() / 2; }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(tensors_.size()); }
  [[nodiscard]] std::uint32_t tensor(std::uint32_t node) const { return tensors_[node]; }
  [[nodiscard]] std::span<const std::uint32_t> neighbours(std::uint32_t node) const {
    return {items_.data() + begin_[node], begin_[node + 1] - begin_[node]};
  }

 private:
  struct Pair {
    std::uint32_t a;
    std::uint32_t b;
  };

  [[nodiscard]] std::vector<Pair> find_pairs(const SlotLimits& limits);
  [[nodiscard]] std::vector<std::int32_t> min_born_from() const;
  void compress(const std::vector<Pair>& pairs);
  [[nodiscard]] std::size_t tracks() const { return tensors_.empty() ? 1 : order_.born(tensors_[0]).size(); }

  const TensorOrder& order_;
  std::vector<std::uint32_t> tensors_;
  bool complete_ = true;
  std::vector<std::size_t> begin_;
  std::vector<std::uint32_t> items_;
};

}  // namespace ppsim
