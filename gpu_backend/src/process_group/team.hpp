#pragma once

#include "executor/watch/monitor.hpp"
#include "peers.hpp"

namespace ppsim::gpu_backend {

/// How this process keeps step with the others of its run, where its ranks are threads; alone it does
/// nothing.
///
/// A process whose queues have all waited for a while sends the states of its instructions to process 0. As
/// soon as nothing can move in all states that were sent, nothing ever will: process 0 stops all, and reports
/// the hang.
class Team {
 public:
  /// Requires: references that outlive the team.
  Team(const RunInput& input, const ExecutionGraph& graph, Monitor& monitor);

  [[nodiscard]] bool alone() const { return peers_.alone(); }
  [[nodiscard]] bool leads() const { return peers_.leads(); }

  /// Waits until all processes are here. Errors: throws what one of them has stopped with.
  void assemble() { peers_.assemble(); }
  /// Begins a step with all others. Errors: throws what one of them has stopped with.
  void begin_step(int step, const StepDeadline& deadline);
  /// From here on a stop ends the monitor's step; one that came before does at once.
  void watch();
  /// Waits until the step is over on all processes.
  [[nodiscard]] StepEnd wait_for_end(const StepDeadline& deadline);
  /// Stops all for a failure of this process. Returns: the error that all stopped with, which may be an
  /// earlier one.
  Error stop(const Error& error);

  /// Why the others have stopped this process.
  [[nodiscard]] Error stop_reason() { return peers_.stop_reason(); }
  /// As Peers::report() and explained().
  [[nodiscard]] std::vector<Wait> report() { return peers_.report(); }
  [[nodiscard]] Error explained(Error error) { return peers_.explained(std::move(error)); }
  /// As Peers::collect().
  void collect(RunResult& result, const std::vector<StepBegin>& begins) { peers_.collect(result, begins); }

 private:
  [[nodiscard]] StepEnd wait_together(std::optional<std::chrono::nanoseconds> deadline);
  void send_states(const Monitor::Snapshot& snapshot, bool last);

  Monitor& monitor_;
  std::uint64_t sent_changes_ = 0;  ///< of the states that were sent last
  Peers peers_;
};

}  // namespace ppsim::gpu_backend
