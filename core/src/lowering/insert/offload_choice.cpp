#include "offload_choice.hpp"

#include <algorithm>
#include <map>

namespace ppsim::lowering {
namespace {

constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

Action forward_of(Action action) {
  action.kind = OpKind::forward;
  return action;
}

/// The F of activations that go to another rank or come from one.
Action evicted_forward(const Action& exchange) {
  return make_action(OpKind::forward, exchange.subject, exchange.microbatch, exchange.slice);
}

/// All waits of a row, and what has no place among them.
class WaitFinder {
 public:
  explicit WaitFinder(std::span<const Cell> row) : row_(row) {}

  std::vector<Wait> run() {
    for (std::size_t i = 0; i < row_.size(); ++i) {
      if (!row_[i].idle() && names_peer_rank(row_[i].actions().front().kind))
        open_.erase(evicted_forward(row_[i].actions().front()));
      if (std::ranges::none_of(row_[i].actions(), computes_stage, &Action::kind)) continue;
      for (const Action& action : row_[i].actions()) visit(action, i);
      last_compute_ = i;
    }
    std::erase_if(waits_, [](const Wait& wait) { return wait.until == kNowhere; });
    return std::move(waits_);
  }

 private:
  void visit(const Action& action, std::size_t place) {
    if (action.kind == OpKind::forward) {
      open_[action] = waits_.size();
      waits_.push_back({action, place, kNowhere});
    }
    const auto wait = open_.find(forward_of(action));
    if (wait == open_.end()) return;
    if (action.kind == OpKind::recompute) open_.erase(wait);
    if (!gives_input_gradient(action.kind)) return;
    if (waits_[wait->second].from != last_compute_) waits_[wait->second].until = place;
    open_.erase(wait);
  }

  std::span<const Cell> row_;
  std::size_t last_compute_ = kNowhere;
  std::map<Action, std::size_t> open_;  ///< into waits_, by F
  std::vector<Wait> waits_;
};

/// The waits of one stage, in the order of their F.
struct StageWaits {
  std::vector<Wait> waits;
  std::size_t cells = 0;  ///< that they wait, all together

  /// Whether this stage waits longer than another on average.
  [[nodiscard]] bool longer_than(const StageWaits& other) const {
    return cells * other.waits.size() > other.cells * waits.size();
  }
};

std::vector<StageWaits> by_stage(const Offload& offload, const std::vector<Wait>& waits) {
  std::map<StageId, StageWaits> stages;
  for (const Wait& wait : waits) {
    const StageId stage = wait.forward.stage();
    const bool chosen =
        offload.stages.empty() || std::ranges::find(offload.stages, stage) != offload.stages.end();
    if (!chosen) continue;
    stages[stage].waits.push_back(wait);
    stages[stage].cells += wait.until - wait.from;
  }
  std::vector<StageWaits> result;
  for (auto& [stage, of_stage] : stages) result.push_back(std::move(of_stage));
  std::ranges::stable_sort(result, [](const StageWaits& a, const StageWaits& b) { return a.longer_than(b); });
  return result;
}

}  // namespace

std::vector<Wait> offloaded_waits(const Offload& offload, std::span<const Cell> row) {
  const std::vector<StageWaits> stages = by_stage(offload, WaitFinder(row).run());
  std::size_t all = 0;
  for (const StageWaits& stage : stages) all += stage.waits.size();
  std::size_t left = (all * as_size(offload.percent) + 50) / 100;
  std::vector<Wait> chosen;
  for (const StageWaits& stage : stages) {
    const std::size_t count = stage.waits.size();
    const std::size_t taken = std::min(left, count);
    left -= taken;
    for (std::size_t i = 0; i < count; ++i) {
      if ((i + 1) * taken / count > i * taken / count) chosen.push_back(stage.waits[i]);
    }
  }
  std::ranges::sort(chosen, {}, &Wait::from);
  return chosen;
}

}  // namespace ppsim::lowering
