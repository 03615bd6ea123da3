#include "waits.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "ppsim/core/ir/sequences.hpp"

namespace ppsim {
namespace {

constexpr int kCompute = -1;
constexpr int kCopy = -2;

int queue_of(const Action& action, CommunicatorId communicator) {
  switch (info(action.kind).resource) {
    case Resource::compute:
      return kCompute;
    case Resource::copy:
      return kCopy;
    case Resource::p2p:
    case Resource::collective:
      return communicator.value();
  }
  return kCompute;
}

bool is_waited_for(const InstructionDraft& item) {
  return item.actions.size() == 1 &&
         (is_send(item.actions[0].kind) || item.actions[0].kind == OpKind::reduce_grad);
}

/// The waits of one row in the making.
class WaitPlan {
 public:
  explicit WaitPlan(std::span<const InstructionDraft> row) : row_(row), as_written_(has_after(row)) {}

  std::vector<TorchWait> make() && {
    for (position_ = 0; position_ < static_cast<int>(row_.size()); ++position_) {
      const InstructionDraft& item = row_[static_cast<std::size_t>(position_)];
      for (const int what : sorted(item.after)) wait_for(what);
      const bool reduces = is_waited_for(item) && item.actions[0].kind == OpKind::reduce_grad;
      if (reduces && !as_written_) wait_for_reductions();
      if (is_waited_for(item)) pending_.push_back(position_);
      if (!as_written_) wait_behind(item);
    }
    wait_for_reductions();
    for (const int what : std::vector<int>(pending_)) wait_for(what);
    return std::move(waits_);
  }

 private:
  static std::vector<int> sorted(std::vector<int> positions) {
    std::ranges::sort(positions);
    return positions;
  }

  [[nodiscard]] const Action& action_at(int position) const {
    return row_[static_cast<std::size_t>(position)].actions[0];
  }

  void wait_for(int what) {
    if (std::erase(pending_, what) > 0) waits_.push_back({what, position_});
  }

  void wait_for_reductions() {
    for (const int what : std::vector<int>(pending_)) {
      if (action_at(what).kind == OpKind::reduce_grad) wait_for(what);
    }
  }

  /// Behind a backward: for the SEND_F of its stage and microbatch, which its peer has consumed by then.
  void wait_behind(const InstructionDraft& item) {
    for (const Action& action : item.actions) {
      if (!gives_input_gradient(action.kind)) continue;
      const auto sent = std::ranges::find_if(pending_, [&](int what) {
        const Action& send = action_at(what);
        return send.kind == OpKind::send_forward && send.subject == action.subject &&
               send.microbatch == action.microbatch;
      });
      if (sent == pending_.end()) continue;
      waits_.push_back({*sent, position_ + 1});
      pending_.erase(sent);
    }
  }

  std::span<const InstructionDraft> row_;
  bool as_written_;
  int position_ = 0;
  std::vector<int> pending_;  ///< positions, ascending
  std::vector<TorchWait> waits_;
};

}  // namespace

void add_waits(std::vector<InstructionDraft>& row, std::span<const TorchWait> waits) {
  std::size_t reached = 0;
  std::map<int, std::size_t> taken;  // of the waits so far, those that a queue has
  for (std::size_t i = 0; i < row.size(); ++i) {
    while (reached < waits.size() && waits[reached].before <= static_cast<int>(i)) ++reached;
    InstructionDraft& item = row[i];
    for (std::size_t a = 0; a < item.actions.size(); ++a) {
      std::size_t& had = taken[queue_of(item.actions[a], item.communicators[a])];
      for (; had < reached; ++had) item.after.push_back(waits[had].what);
    }
    sort_unique(item.after);
  }
}

std::vector<TorchWait> plan_waits(std::span<const InstructionDraft> row) { return WaitPlan(row).make(); }

bool has_after(std::span<const InstructionDraft> row) {
  return std::ranges::any_of(row, [](const InstructionDraft& item) { return !item.after.empty(); });
}

}  // namespace ppsim
