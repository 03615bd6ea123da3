#include "message_times.hpp"

#include "engine/clock.hpp"

namespace ppsim::simulator {

namespace {

MessageTimes traced_times(const RunView& run, const Message& message) {
  if (!message.complete()) return {};
  const Span& send = run.trace.spans[message.send];
  const Span& receive = run.trace.spans[message.receive];
  const bool rendezvous = !run.graph.capabilities.credits;
  return {rendezvous ? std::max(send.start, receive.start) : send.start, send.end, receive.end};
}

}  // namespace

std::vector<MessageTimes> message_times(const RunView& run) {
  const bool rendezvous = !run.graph.capabilities.credits;
  std::vector<MessageTimes> times(run.graph.messages.size());
  for (std::size_t i = 0; i < times.size(); ++i) {
    const Message& message = run.graph.messages[i];
    MessageTimes& time = times[i];
    if (run.measured) {
      time = traced_times(run, message);
      continue;
    }
    if (!message.send.valid()) continue;
    const Instant met = message.receive.valid() ? run.trace.spans[message.receive].start : Instant{};
    time.begin = run.trace.spans[message.send].start;
    if (rendezvous) time.begin = std::max(time.begin, met);
    if (message.previous >= 0) {
      time.begin = std::max(time.begin, times[static_cast<std::size_t>(message.previous)].out);
    }
    if (message.credit >= 0) {
      time.begin = std::max(time.begin, times[static_cast<std::size_t>(message.credit)].received);
    }
    const Action& send = run.program.all_actions()[message.send_action];
    time.out = completion(time.begin, run.costs(cost_class_of(send)));
    time.received = rendezvous ? time.out : std::max(time.out, completion(met, 0));
  }
  return times;
}

}  // namespace ppsim::simulator
