#include <algorithm>

#include "ppsim/core/execution/wait_analysis.hpp"
#include "ppsim/core/io/text.hpp"
#include "ppsim/core/ir/check.hpp"

namespace ppsim {
namespace {

/// The name of the first queue that two instructions share.
std::string shared_queue(const Program& program, InstructionId a, InstructionId b) {
  const std::vector<int> of_a = program.queues_of(a);
  const std::vector<int> of_b = program.queues_of(b);
  const auto shared = std::ranges::find_first_of(of_a, of_b);
  PPSIM_CHECK(shared != of_a.end(), "a wait for a queue that two instructions do not share");
  return program.queue_name(*shared);
}

std::string unsatisfiable_text(const ExecutionGraph& graph, InstructionId id) {
  const auto row = std::ranges::lower_bound(graph.unsatisfiable, id, {}, &Unsatisfiable::instruction);
  PPSIM_CHECK(row != graph.unsatisfiable.end() && row->instruction == id, "a wait for nothing absent");
  return row->why;
}

std::string counterpart_text(const Program& program, const Message& message) {
  const Action& present =
      program.all_actions()[message.send.valid() ? message.send_action : message.receive_action];
  return action_text(program.pipeline(), present) +
         (message.send.valid() ? " meets no RECV on its channel" : " meets no SEND on its channel");
}

std::string member_text(const Program& program, const CollectiveMatch& match) {
  const Communicator& communicator = program.communicator(match.communicator);
  return "only " + std::to_string(match.member_count) + " of " + std::to_string(communicator.members.size()) +
         " members of communicator " + communicator.name + " take part";
}

/// The launch that holds it back: the latest one before it that waits for the same for another reason than
/// the chain.
std::string launch_text(const Program& program, const ExecutionGraph& graph, const InstructionWait& wait) {
  for (InstructionId id(wait.waiter.value() - 1); id > wait.waits_for; id = InstructionId(id.value() - 1)) {
    if (!is_chained(graph.capabilities.launches, program, id)) continue;
    const auto before = graph.predecessors_of(id);
    const auto at = std::ranges::find(before, wait.waits_for);
    if (at == before.end()) continue;
    if (graph.reasons_of(id)[as_size(at - before.begin())] != WaitReason::launch)
      return "is launched after " + actions_text(program, id) + ", which waits for it";
  }
  return "is launched after it";
}

std::string why_text(const Program& program, const ExecutionGraph& graph, const InstructionWait& wait) {
  switch (wait.reason) {
    case WaitReason::data:
      return "needs its result";
    case WaitReason::queue:
      return "is later on queue " + shared_queue(program, wait.waiter, wait.waits_for);
    case WaitReason::after:
      return "is listed after it";
    case WaitReason::host:
      return "the host waits for it before it issues more";
    case WaitReason::launch:
      return launch_text(program, graph, wait);
    case WaitReason::place:
      return "none of the rank's places is free before it completes";
    case WaitReason::unsatisfiable:
      return unsatisfiable_text(graph, wait.waiter);
    case WaitReason::running:
      return "takes its time";
    case WaitReason::rendezvous:
      return "a transfer begins when both ends have started";
    case WaitReason::credit:
      return "no credit is left before it receives";
    case WaitReason::unsent:
      return "nothing arrives before it sends";
    case WaitReason::channel:
      return "messages of a channel keep their order";
    case WaitReason::counterpart:
      return counterpart_text(program, graph.messages[as_size(wait.message)]);
    case WaitReason::collective:
      return "a collective begins when all members have started";
    case WaitReason::member:
      return member_text(program, graph.matches[as_size(graph.match_of[wait.waiter.index()])]);
  }
  PPSIM_CHECK(false, "unknown reason");
}

std::string text_of(const NamedInstruction& place) {
  return "rank " + std::to_string(place.rank.value()) + ": " + place.action;
}

}  // namespace

std::string_view wait_reason_name(WaitReason reason) {
  switch (reason) {
    case WaitReason::data:
      return "data";
    case WaitReason::queue:
      return "queue";
    case WaitReason::after:
      return "after";
    case WaitReason::host:
      return "host";
    case WaitReason::launch:
      return "launch";
    case WaitReason::place:
      return "place";
    case WaitReason::unsatisfiable:
      return "unsatisfiable";
    case WaitReason::running:
      return "running";
    case WaitReason::rendezvous:
      return "rendezvous";
    case WaitReason::credit:
      return "credit";
    case WaitReason::unsent:
      return "unsent";
    case WaitReason::channel:
      return "channel";
    case WaitReason::counterpart:
      return "counterpart";
    case WaitReason::collective:
      return "collective";
    case WaitReason::member:
      return "member";
  }
  return "";
}

bool delays_start(WaitReason reason) {
  switch (reason) {
    case WaitReason::data:
    case WaitReason::queue:
    case WaitReason::after:
    case WaitReason::host:
    case WaitReason::launch:
    case WaitReason::place:
    case WaitReason::unsatisfiable:
      return true;
    case WaitReason::running:
    case WaitReason::rendezvous:
    case WaitReason::credit:
    case WaitReason::unsent:
    case WaitReason::channel:
    case WaitReason::counterpart:
    case WaitReason::collective:
    case WaitReason::member:
      return false;
  }
  PPSIM_CHECK(false, "unknown reason");
}

NamedInstruction named_instruction(const Program& program, InstructionId id) {
  return {id, program.rank_of(id), program.position(id), actions_text(program, id)};
}

Wait in_words(const Program& program, const ExecutionGraph& graph, const InstructionWait& wait) {
  return {named_instruction(program, wait.waiter),
          wait.waits_for.valid() ? named_instruction(program, wait.waits_for) : NamedInstruction{},
          wait.reason, why_text(program, graph, wait)};
}

std::string to_string(const Wait& wait) {
  if (wait.reason == WaitReason::running) return text_of(wait.who) + " is running";
  const std::string why = " (" + wait.why + ")";
  if (!wait.waits_for.instruction.valid()) return text_of(wait.who) + " never completes" + why;
  return text_of(wait.who) + " waits for " + text_of(wait.waits_for) + why;
}

}  // namespace ppsim
