#pragma once

#include <algorithm>
#include <set>
#include <span>
#include <tuple>

#include "ppsim/core/ir/action.hpp"

namespace ppsim::gpu_backend {

/// The kinds, stages and slices of which something was launched: products of other sizes are other kernels.
/// OPT is told apart by its update, too: one that no microbatch feeds launches nothing.
class Launched {
 public:
  /// Whether the like of each action has been added.
  [[nodiscard]] bool knows(std::span<const Action> actions) const {
    return std::all_of(actions.begin(), actions.end(),
                       [&](const Action& action) { return known_.count(key_of(action)) != 0; });
  }
  void add(std::span<const Action> actions) {
    for (const Action& action : actions) known_.insert(key_of(action));
  }

 private:
  using Key = std::tuple<OpKind, std::int32_t, std::uint16_t, int>;
  static Key key_of(const Action& action) {
    const int update = action.kind == OpKind::optimizer ? action.update() : 0;
    return {action.kind, action.subject, action.slice, update};
  }

  std::set<Key> known_;
};

}  // namespace ppsim::gpu_backend
