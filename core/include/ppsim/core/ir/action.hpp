#pragma once

#include <compare>
#include <cstdint>
#include <ostream>

#include "ppsim/core/ir/ids.hpp"
#include "ppsim/core/ir/op_kind.hpp"

namespace ppsim {

/// One thing that a rank does: 16 bytes, a regular value.
///
/// `subject` names a stage, a parameter block or a collective, as op_kind.def says for the kind. `peer` is
/// the stage at the other end of SEND_F, RECV_F, SEND_B, RECV_B and the *rank* at the other end of SEND_A,
/// RECV_A; -1 elsewhere. `microbatch` is -1 where the kind has none and holds the update index of
/// REDUCE_GRAD and OPT.
struct Action {
  std::int32_t subject = 0;
  std::int32_t microbatch = -1;
  std::int32_t peer = -1;
  std::uint16_t slice = 0;
  OpKind kind = OpKind::forward;

  [[nodiscard]] StageId stage() const { return StageId(subject); }
  [[nodiscard]] BlockId block() const { return BlockId(subject); }
  [[nodiscard]] CollectiveId collective() const { return CollectiveId(subject); }
  [[nodiscard]] MicrobatchId mb() const { return MicrobatchId(microbatch); }
  [[nodiscard]] StageId peer_stage() const { return StageId(peer); }
  [[nodiscard]] RankId peer_rank() const { return RankId(peer); }
  [[nodiscard]] std::int32_t update() const { return microbatch; }

  friend constexpr auto operator<=>(const Action&, const Action&) = default;
};
static_assert(sizeof(Action) == 16);

/// A compute-side action of one stage, microbatch and slice.
[[nodiscard]] constexpr Action make_action(OpKind kind, int stage, int microbatch, int slice = 0) {
  return Action{stage, microbatch, -1, static_cast<std::uint16_t>(slice), kind};
}
/// A transfer: `peer` as in Action.
[[nodiscard]] constexpr Action make_transfer(OpKind kind, int stage, int microbatch, int peer) {
  return Action{stage, microbatch, peer, 0, kind};
}
/// The same action of another slice.
[[nodiscard]] constexpr Action at_slice(Action action, int slice) {
  action.slice = static_cast<std::uint16_t>(slice);
  return action;
}

/// The action that must meet a SEND or RECV at the other end of its channel. For SEND_A and RECV_A
/// `own_rank` is the rank of `transfer`.
/// Requires: is_transfer(transfer.kind).
[[nodiscard]] Action counterpart(const Action& transfer, RankId own_rank);

/// Text of an action with every field that it has (`0SEND_F3>1`, `2B0.1` for a slice > 0).
std::ostream& operator<<(std::ostream& out, const Action& action);

}  // namespace ppsim
