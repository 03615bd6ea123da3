#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ppsim/core/ir/capabilities.hpp"
#include "ppsim/core/ir/program.hpp"

namespace ppsim {

/// One SEND with its RECV: the i-th of each on a channel. -1 where the counterpart is absent.
struct Message {
  InstructionId send;
  InstructionId receive;
  std::uint32_t send_action = 0;  ///< index into Program::all_actions()
  std::uint32_t receive_action = 0;
  std::int32_t previous = -1;  ///< message before it on the channel
  std::int32_t credit = -1;    ///< message whose receipt frees its credit; -1: none needed
  bool matched = true;         ///< both ends name the same tensor

  [[nodiscard]] bool complete() const { return send.valid() && receive.valid(); }
};

/// One match of a collective over all members of its communicator; invalid where a member has none.
struct CollectiveMatch {
  CommunicatorId communicator;
  std::uint32_t first_member = 0;  ///< into ExecutionGraph::match_members
  std::uint32_t member_count = 0;
  bool complete = true;  ///< every member takes part
  bool matched = true;   ///< all name the same collective, microbatch and subject
};

/// Why an instruction waits: for something that keeps it from starting, or for something that keeps it from
/// completing once it has started. The reasons of predecessors are the first five.
enum class WaitReason : std::uint8_t {
  data,           ///< it needs the result of another one
  queue,          ///< an earlier instruction of its queue is not complete
  after,          ///< it is listed `after` another one
  host,           ///< the host waits for another one before it issues more
  launch,         ///< the launch order puts it after the other one, or after one that waits for that
  place,          ///< all places of the residency limit are taken
  unsatisfiable,  ///< it needs what no instruction of its rank provides
  running,        ///< it takes its time: no other instruction is needed
  rendezvous,     ///< an end of its transfer has not started
  credit,         ///< its channel is full
  unsent,         ///< the SEND of what it receives has not started
  channel,        ///< an earlier message of its channel is not out
  counterpart,    ///< a SEND without RECV, or the other way round
  collective,     ///< a member of its collective has not started
  member,         ///< a member of the communicator takes no part in its collective
};

/// An instruction that can never start: a required fact that no action of its rank provides, or an action on
/// a rank where it does not belong.
struct Unsatisfiable {
  InstructionId instruction;
  std::string why;
  friend bool operator==(const Unsatisfiable&, const Unsatisfiable&) = default;
};

/// Everything that E1 to E7 and E9 make an instruction wait for, in flat arrays; the one input of simulator,
/// verifier and slot plan. Static: costs and sizes are bound later.
///
/// An instruction starts when all predecessors(i) are complete (queue order, data, `after`, blocking host,
/// ordered launches). What is launched after the start of another one waits for what that one waits for,
/// because nothing else delays a start.
/// A single compute or copy action completes when its duration has passed. A message begins when send and
/// receive have started (rendezvous) or send has started and its credit is free (credits), and `previous` is
/// complete; an instruction of messages completes when all its messages have. A collective completes on all
/// members together.
struct ExecutionGraph {
  TransportCapabilities capabilities;
  std::vector<std::uint32_t> predecessor_begin;  ///< size() + 1
  std::vector<InstructionId> predecessors;       ///< all of the same rank, without duplicates
  std::vector<WaitReason> reasons;               ///< parallel to predecessors
  std::vector<Message> messages;                 ///< channel by channel, in channel order
  std::vector<std::uint32_t> message_begin;      ///< size() + 1
  std::vector<std::uint32_t> message_items;      ///< messages of an instruction, in member order
  std::vector<CollectiveMatch> matches;
  std::vector<InstructionId> match_members;
  std::vector<std::int32_t> match_of;        ///< per instruction; -1: no collective
  std::vector<Unsatisfiable> unsatisfiable;  ///< ascending by instruction

  [[nodiscard]] std::size_t size() const { return match_of.size(); }
  [[nodiscard]] std::span<const InstructionId> predecessors_of(InstructionId id) const {
    const auto first = predecessor_begin[id.index()];
    return {predecessors.data() + first, predecessor_begin[id.index() + 1] - first};
  }
  [[nodiscard]] std::span<const WaitReason> reasons_of(InstructionId id) const {
    const auto first = predecessor_begin[id.index()];
    return {reasons.data() + first, predecessor_begin[id.index() + 1] - first};
  }
  [[nodiscard]] std::span<const std::uint32_t> messages_of(InstructionId id) const {
    const auto first = message_begin[id.index()];
    return {message_items.data() + first, message_begin[id.index() + 1] - first};
  }
  [[nodiscard]] std::span<const InstructionId> members_of(const CollectiveMatch& match) const {
    return {match_members.data() + match.first_member, match.member_count};
  }
  [[nodiscard]] bool waits_forever(InstructionId id) const;
};

/// Whether an instruction belongs to the chain of its rank's launches (E9). A collective without partners
/// launches no communication.
[[nodiscard]] bool is_chained(const LaunchChain& chain, const Program& program, InstructionId id);

/// Builds the graph in time linear in the Program, times its queues where launches are ordered.
/// Requires: no residency limit with ordered launches.
[[nodiscard]] ExecutionGraph build_execution_graph(const Program& program,
                                                   const TransportCapabilities& capabilities);

/// An order in which the Program can run: items are instruction starts and completions.
/// Encoded 2*id for "id starts", 2*id+1 for "id completes". A message or a match completes between the
/// start of its last end and the completion of its first.
struct RunOrder {
  std::vector<std::uint32_t> items;
  bool complete = false;  ///< every instruction completes; else a deadlock stopped it
};

/// A topological order of starts and completions, or as much of one as a run can do.
[[nodiscard]] RunOrder run_order(const ExecutionGraph& graph);

}  // namespace ppsim
