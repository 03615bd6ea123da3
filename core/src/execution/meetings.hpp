#pragma once

#include "ppsim/core/execution/execution_graph.hpp"

namespace ppsim {

/// Fills messages, message_begin and message_items: the i-th SEND of a channel meets its i-th RECV.
void add_messages(const Program& program, ExecutionGraph& graph);

/// Fills meetings, meeting_members and meeting_of: the i-th collective on a communicator meets the i-th on
/// every member.
void add_collective_meetings(const Program& program, ExecutionGraph& graph);

}  // namespace ppsim
