#include "message_times.hpp"

#include <algorithm>

#include "engine/clock.hpp"
#include "engine/groups.hpp"

namespace ppsim::simulator {

MessageClock::MessageClock(const TimedRun& run) : run_(run) {
  if (!run.measured && has_groups(run.program, run.graph)) by_costs_ = message_times_by_costs(run);
}

MessageTimes MessageClock::traced(const Message& message) const {
  if (!message.send.valid() || (run_.measured && !message.receive.valid())) return {};
  const Span& send = run_.trace.spans[message.send];
  MessageTimes times{send.start, send.end, send.end};
  if (!message.receive.valid()) return times;
  const Span& receive = run_.trace.spans[message.receive];
  times.received = receive.end;
  if (!run_.graph.capabilities.credits) times.begin = std::max(send.start, receive.start);
  // The message before it on its channel was out when its SEND started: they share a queue.
  if (message.credit < 0 || run_.measured) return times;
  const Message& credit = run_.graph.messages[as_size(message.credit)];
  times.begin = std::max(times.begin, run_.trace.spans[credit.receive].end);
  return times;
}

std::vector<MessageTimes> message_times_by_costs(const TimedRun& run) {
  const bool rendezvous = !run.graph.capabilities.credits;
  std::vector<MessageTimes> times(run.graph.messages.size());
  for (std::size_t i = 0; i < times.size(); ++i) {
    const Message& message = run.graph.messages[i];
    if (!message.send.valid()) continue;
    MessageTimes& time = times[i];
    const Instant met = message.receive.valid() ? run.trace.spans[message.receive].start : Instant{};
    time.begin = run.trace.spans[message.send].start;
    if (rendezvous) time.begin = std::max(time.begin, met);
    if (message.previous >= 0) {
      time.begin = std::max(time.begin, times[as_size(message.previous)].out);
    }
    if (message.credit >= 0) {
      time.begin = std::max(time.begin, times[as_size(message.credit)].received);
    }
    const Action& send = run.program.all_actions()[message.send_action];
    time.out = completion(time.begin, run.costs(cost_class_of(send)));
    time.received = rendezvous ? time.out : std::max(time.out, completion(met, 0));
  }
  return times;
}

}  // namespace ppsim::simulator
