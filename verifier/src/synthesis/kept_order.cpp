#include "synthesis/kept_order.hpp"

#include <array>

#include "ppsim/core/lowering/earliest_times.hpp"

namespace ppsim::verifier::synthesis {
namespace {

bool is_weight(const Action& action) { return action.kind == OpKind::backward_weight; }

/// Whether a rank runs one F, I or B after the other, each in the order of the microbatches.
bool ascends(const Schedule& schedule, RankId rank) {
  std::array<int, 2> next = {};
  for (const Cell& cell : schedule.row(rank)) {
    if (cell.overlapped()) return false;
    for (const Action& action : cell.actions()) {
      if (is_weight(action)) continue;
      const bool forward = action.kind == OpKind::forward;
      const bool backward = action.kind == OpKind::backward || action.kind == OpKind::backward_input;
      if (!forward && !backward) return false;
      if (action.microbatch != next[forward ? 0 : 1]++) return false;
    }
  }
  return true;
}

}  // namespace

KeptOrder kept_order_of(const SynthesisRequest& request) {
  if (!request.kept_order) return {};
  KeptOrder result(as_size(request.ranks));
  for (int r = 0; r < request.ranks; ++r) {
    for (const Cell& cell : request.kept_order->row(RankId(r))) {
      for (const Action& action : cell.actions()) {
        if (!is_weight(action)) result[as_size(r)].push_back(action.kind == OpKind::forward);
      }
    }
  }
  return result;
}

Expected<void> check_kept_order(const SynthesisRequest& request) {
  if (!request.kept_order) return {};
  const auto refused = [](const std::string& why) {
    return make_error(ErrorCode::bad_argument, "cannot keep this order: " + why);
  };
  if (request.backward == BackwardForm::fused) return refused("that of F and B leaves nothing open");
  PPSIM_ASSIGN_OR_RETURN(const auto chain, make_chain(request.ranks, request.ranks, request.microbatches));
  if (request.kept_order->pipeline() != chain) return refused("it is of another chain");
  for (int r = 0; r < request.ranks; ++r) {
    if (!ascends(*request.kept_order, RankId(r)))
      return refused("rank " + std::to_string(r) +
                     " does not run F and I one by one, microbatch by microbatch");
  }
  if (const auto times = earliest_times(*request.kept_order, request.costs); !times)
    return refused(times.error().message);
  return {};
}

std::string too_many_live(const SynthesisRequest& request) {
  const KeptOrder order = kept_order_of(request);
  for (std::size_t r = 0; r < order.size(); ++r) {
    int forwards = 0;
    int backwards = 0;
    int peak = 0;
    int oldest = 0;  // the first microbatch that is live at the peak
    for (const bool forward : order[r]) {
      ++(forward ? forwards : backwards);
      if (forwards - backwards <= peak) continue;
      peak = forwards - backwards;
      oldest = backwards;
    }
    if (peak <= request.activation_limit) continue;
    const auto action = [&](const char* kind, int microbatch) {
      return std::to_string(r) + kind + std::to_string(microbatch);
    };
    return "the order that is kept holds " + std::to_string(peak) + " microbatches on rank " +
           std::to_string(r) + " however early their W is, the limit is " +
           std::to_string(request.activation_limit) + ": " + action("F", oldest) + " to " +
           action("F", oldest + peak - 1) + " stand before " + action("I", oldest);
  }
  return "";
}

}  // namespace ppsim::verifier::synthesis
