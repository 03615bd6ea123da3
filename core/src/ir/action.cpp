#include "ppsim/core/ir/action.hpp"

#include "ppsim/core/ir/check.hpp"

namespace ppsim {

Action counterpart(const Action& transfer, RankId own_rank) {
  PPSIM_CHECK(is_transfer(transfer.kind), "only transfers have a counterpart");
  Action other = transfer;
  other.kind = info(transfer.kind).counterpart;
  if (names_peer_rank(transfer.kind)) {
    other.peer = own_rank.value();
  } else {
    std::swap(other.subject, other.peer);
  }
  return other;
}

std::ostream& operator<<(std::ostream& out, const Action& action) {
  const OpInfo& row = info(action.kind);
  out << action.subject << row.text;
  if (action.microbatch >= 0) out << action.microbatch;
  if (action.slice > 0) out << '.' << action.slice;
  if (action.peer >= 0) out << (is_send(action.kind) ? '>' : '<') << action.peer;
  return out;
}

}  // namespace ppsim
