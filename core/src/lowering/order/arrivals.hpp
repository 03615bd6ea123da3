#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "lowering/lines.hpp"
#include "ppsim/core/lowering/lowering.hpp"

namespace ppsim::lowering {

/// The lines that fill a buffer for a later compute line of the same rank: RECV_F, RECV_B, LOAD, RELOAD and
/// UNSHARD.
[[nodiscard]] bool is_arrival(const Line& line);

/// In the place of a line or a rank: none.
inline constexpr std::int32_t kNobody = -1;

/// For every line of a row the place of its first user: F for RECV_F and LOAD, B or I for RECV_B and RELOAD,
/// the next compute line of the stage for UNSHARD; kNobody for lines that are no arrival.
[[nodiscard]] std::vector<std::int32_t> first_users(const Pipeline& pipeline, RankId rank,
                                                    const LineRow& row);

/// Arrivals that keep their order: the messages of one channel, or one kind of local arrival.
struct Stream {
  OpKind kind;        ///< recv_forward for every message
  std::int32_t from;  ///< source rank, or stage where a channel belongs to an edge of stages
  std::int32_t to;
  friend auto operator<=>(const Stream&, const Stream&) = default;
};
/// Requires: is_arrival(line).
[[nodiscard]] Stream stream_of(const Pipeline& pipeline, CommunicatorPolicy policy, const Line& line);

}  // namespace ppsim::lowering
