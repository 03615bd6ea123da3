#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "hang_report.hpp"
#include "monitor.hpp"
#include "worker.hpp"

namespace ppsim {

/// How this process keeps step with the others of its run; alone it does nothing.
///
/// A process whose lanes have all waited for a while sends the states of its instructions to process 0. As
/// soon as nothing can move in all states that were sent, nothing ever will: process 0 stops all, and reports
/// the hang. When a process fails, is late or dies, all stop, and send their states for the report.
class Team final : public BootstrapListener {
 public:
  /// Requires: references that outlive the team.
  Team(const RunInput& input, const ExecutionGraph& graph, Monitor& monitor);
  ~Team() override;
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  [[nodiscard]] bool alone() const { return processes_ == nullptr; }
  [[nodiscard]] bool leads() const { return alone() || processes_->process() == 0; }

  /// Waits until all processes are here. Errors: throws what one of them has stopped with.
  void assemble();
  /// Begins a step with all others. Errors: throws what one of them has stopped with.
  void begin_step(int step);
  /// From here on a stop ends the monitor's step; one that came before does at once.
  void watch();
  /// Waits until the step is over on all processes.
  [[nodiscard]] StepEnd wait_for_end(std::optional<std::chrono::nanoseconds> deadline);
  /// Stops all for a failure of this process. Returns: what all have stopped with, which may have come first.
  Error stop(const Error& error);

  /// Why the others have stopped this process.
  [[nodiscard]] Error stop_reason();
  /// As process 0, what all processes wait for, after a stop; empty elsewhere.
  [[nodiscard]] std::vector<HangWait> report();
  /// At process 0, completes the result by those of the others; these hand theirs in. The traces begin with
  /// the first process, on the clock of process 0. Errors: throws what one of them has stopped with.
  void collect(RunResult& result, const std::vector<Nanoseconds>& origins_ns);

  std::optional<Error> on_note(int process, std::string_view note) override;
  void on_stop(const Error& error) override;

 private:
  [[nodiscard]] StepEnd wait_together(std::optional<std::chrono::nanoseconds> deadline);
  void send_states(const Monitor::Snapshot& snapshot, bool last);
  [[nodiscard]] RankRange ranks_of(int process) const;

  const RunInput& input_;
  const ExecutionGraph& graph_;
  Monitor& monitor_;
  Bootstrap* processes_;
  int step_ = 0;
  std::uint64_t sent_changes_ = 0;  ///< of the states that were sent last

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Error> stop_;
  int states_step_ = 0;
  std::vector<InstructionState> states_;  ///< of all processes, as they sent them in this step
  bool hung_ = false;                     ///< nothing can move any more in `states_`
  std::set<int> last_words_;              ///< who has sent its states after a stop
};

}  // namespace ppsim
