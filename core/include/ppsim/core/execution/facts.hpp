#pragma once

#include <compare>
#include <cstdint>
#include <ostream>
#include <vector>

#include "ppsim/core/ir/action.hpp"
#include "ppsim/core/ir/pipeline.hpp"

namespace ppsim {

/// A fact that the completion of an action makes true on its rank. The one place where data dependencies are
/// defined: an action provides facts and requires facts of its own rank. "Delivered" is `forward_done` or
/// `backward_done` where producer and consumer share the rank, else the `received_*` of the consumer.
enum class FactKind : std::uint8_t {
  forward_done,          ///< F(s,m,k)
  backward_done,         ///< B or I(s,m,k)
  weight_done,           ///< B or W(s,m,k)
  recomputed,            ///< R(s,m,k)
  received_forward,      ///< RECV_F(s <- peer,m,k)
  received_backward,     ///< RECV_B(s <- peer,m,k)
  activations_received,  ///< RECV_A(s,m,k)
  loaded,                ///< LOAD(s,m,k)
  offloaded,             ///< OFFLOAD(s,m,k)
  reloaded,              ///< RELOAD(s,m,k)
  activations_sent,      ///< SEND_A(s,m,k), by the owner
  reduced,               ///< REDUCE_GRAD(block,update), or of a microbatch where the block has one for each
  collected,             ///< COLL(id,m); m = -1 for one without microbatch
  updated,               ///< OPT(block,update)
};
inline constexpr int kFactKindCount = 14;

struct Fact {
  FactKind kind = FactKind::forward_done;
  std::int32_t subject = -1;
  std::int32_t microbatch = -1;
  std::int32_t slice = 0;
  std::int32_t peer = -1;
  friend auto operator<=>(const Fact&, const Fact&) = default;
};
std::ostream& operator<<(std::ostream& out, const Fact& fact);

/// A fact that an action waits for. An optional one counts only when some action of the rank provides it:
/// R, LOAD, RELOAD, SEND_A, RECV_A, REDUCE_GRAD and the norm constrain others where they occur. Not so an OPT
/// whose version is read, or a collective that stands before a pass: without it the pass never starts.
struct Requirement {
  Fact fact;
  bool optional = false;
  friend bool operator==(const Requirement&, const Requirement&) = default;
};

/// Whether an action may stand in the list of `rank`: its stage is placed there and on the microbatch's
/// route, its peer is a neighbour, its block or collective has a share on the rank. An action elsewhere
/// provides nothing and never starts. Requires: ids in range.
[[nodiscard]] bool belongs_on(const Pipeline& pipeline, const Action& action, RankId rank);

/// Facts that hold on `rank` once `action` is complete. Where several actions of a rank provide a fact, the
/// first one in issue order is the one that counts. Requires: ids in range and belongs_on(pipeline, action,
/// rank). Source: section 3 of docs/ir.md.
void provided_facts(const Pipeline& pipeline, const Action& action, RankId rank, std::vector<Fact>& out);

/// Facts of `rank` that must hold before `action` starts, UNSHARD and RESHARD aside, which depend on their
/// place in the list: computes of a stage wait for the last UNSHARD before them, the RESHARD for
/// these computes. A collective named "norm" waits for the gradients of an update; any other one for the
/// passes that it follows, and beyond that it is ordered by `after`. Requires: ids in range and
/// belongs_on(pipeline, action, rank). Source: section 3 of docs/ir.md.
void required_facts(const Pipeline& pipeline, const Action& action, RankId rank,
                    std::vector<Requirement>& out);

}  // namespace ppsim
