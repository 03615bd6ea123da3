#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "ppsim/core/ir/program.hpp"

namespace ppsim::test {

/// Ways to break one rule of a Program.
enum class Breakage : std::uint8_t {
  drop_compute,
  drop_send,
  drop_receive,
  drop_participant,  ///< one rank's part in a COLL or REDUCE_GRAD
  drop_copy,         ///< OFFLOAD or RELOAD
  drop_unshard,
  double_compute,
  double_transfer,
  swap_computes,  ///< two of which the later needs the earlier
  swap_sends,     ///< of one channel
  swap_receives,  ///< of one channel
  move_receive,   ///< elsewhere before its user
  late_receive,   ///< behind its user
  swap_collectives,
  swap_weights,     ///< two W of one stage, each behind its I
  early_update,     ///< an OPT before a gradient that it needs
  wrong_update,     ///< an OPT that makes another version
  early_reader,     ///< an F before the OPT whose version it reads
  other_channel,    ///< one end of a transfer on another communicator
  split_group,      ///< at one end
  split_pair,       ///< at both ends, in one order of the directions
  block_host,       ///< on a RECV posted ahead
  wait_for_later,   ///< `after` what follows
  wrong_rank,       ///< a computation on another rank
  wrong_microbatch  ///< at one end of a transfer
};
inline constexpr int kBreakageCount = 25;
[[nodiscard]] std::string_view breakage_name(Breakage breakage);

struct Mutant {
  Program program;
  std::vector<InstructionId> touched;  ///< instructions of the mutant that were moved or changed
  /// Actions that were dropped, moved or changed, as they were and as they are, and their counterparts.
  std::vector<Action> actions;
};

/// The Program with one rule broken somewhere. Nothing where it has no place for this.
[[nodiscard]] std::optional<Mutant> break_one_rule(const Program& program, Breakage breakage,
                                                   std::uint64_t seed);

}  // namespace ppsim::test
