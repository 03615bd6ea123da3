#include "team.hpp"

#include <algorithm>
#include <limits>

#include "ppsim/gpu_backend/executor/backend_error.hpp"

namespace ppsim::gpu_backend {
namespace {

using namespace std::chrono_literals;

constexpr auto kQuiet = 25ms;  // states that last so long are worth a message

}  // namespace

Team::Team(const RunInput& input, const ExecutionGraph& graph, Monitor& monitor)
    : monitor_(monitor),
      peers_({.program = input.program,
              .graph = graph,
              .here = input.here,
              .processes = input.options.processes,
              .timeout = timeout_of(input.options),
              .on_stop = [&monitor] { monitor.stop(StepEnd::stopped); }}) {}

void Team::begin_step(int step, const StepDeadline& deadline) {
  sent_changes_ = std::numeric_limits<std::uint64_t>::max();
  peers_.begin_step(step, deadline);
}

void Team::watch() {
  if (peers_.stopped()) monitor_.stop(StepEnd::stopped);
}

StepEnd Team::wait_for_end(const StepDeadline& deadline) {
  if (alone()) return monitor_.wait_for_end(deadline.limit());
  const StepEnd end = wait_together(deadline.limit());
  if (end != StepEnd::finished && end != StepEnd::stopped) return end;
  send_states(monitor_.snapshot(), true);
  if (end == StepEnd::stopped) return end;
  try {
    peers_.assemble(deadline);
    return end;
  } catch (const BackendError& stopped) {
    peers_.on_stop(stopped.error());
    send_states(monitor_.snapshot(), true);  // once more: these are the final states
    return StepEnd::stopped;
  }
}

StepEnd Team::wait_together(std::optional<std::chrono::nanoseconds> deadline) {
  using Time = std::chrono::nanoseconds;
  const auto begin = std::chrono::steady_clock::now();
  while (true) {
    const Time left = deadline ? begin + *deadline - std::chrono::steady_clock::now() : Time::max();
    if (const auto end = monitor_.wait_for_end_within(std::min<Time>(left, kQuiet))) return *end;
    if (left <= kQuiet) monitor_.stop(StepEnd::late);
    const Monitor::Snapshot snapshot = monitor_.snapshot();
    if (snapshot.quiet && snapshot.changes != sent_changes_) send_states(snapshot, false);
  }
}

Error Team::stop(const Error& error) {
  Error reason = peers_.stop(error);
  if (!alone()) send_states(monitor_.snapshot(), true);
  return reason;
}

void Team::send_states(const Monitor::Snapshot& snapshot, bool last) {
  sent_changes_ = snapshot.changes;
  peers_.send_states(snapshot.states, last);
}

}  // namespace ppsim::gpu_backend
