#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "executor/watch/hang_report.hpp"
#include "executor/watch/monitor.hpp"
#include "executor/watch/step_deadline.hpp"
#include "executor/worker.hpp"
#include "merge_results.hpp"

namespace ppsim::gpu_backend {

/// Who keeps step with whom, in what.
struct PeersSetup {
  const Program& program;
  const ExecutionGraph& graph;
  LocalRanks here;
  Bootstrap* processes = nullptr;
  Timeout timeout = {};                   ///< outside of steps
  std::function<void()> on_stop = [] {};  ///< when all stop; mostly from another thread
};

/// The other processes of a run, whatever its ranks run on; alone it does nothing. When one fails, is late or
/// dies, all stop, and send the states of their instructions to process 0 for its report.
class Peers final : public BootstrapListener {
 public:
  /// Requires: references that outlive it.
  explicit Peers(PeersSetup setup);
  ~Peers() override;
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  [[nodiscard]] bool alone() const { return in_.processes == nullptr; }
  [[nodiscard]] int process() const { return alone() ? 0 : in_.processes->process(); }
  [[nodiscard]] int processes() const { return alone() ? 1 : in_.processes->size(); }
  [[nodiscard]] bool leads() const { return alone() || in_.processes->process() == 0; }

  /// Waits until all processes are here. Errors: throws what one of them has stopped with, or who does not
  /// come.
  void assemble();
  /// The same around a step, not longer than it may take. Errors: throws what one of them has stopped with.
  void assemble(const StepDeadline& deadline);
  /// The bytes from process 0. Errors: as assemble().
  [[nodiscard]] std::string from_leader(const std::string& bytes);
  /// The bytes of every process, in ascending order. Errors: as assemble().
  [[nodiscard]] std::vector<std::string> from_all(const std::string& bytes);
  /// Begins a step with all others. Errors: as assemble().
  void begin_step(int step, const StepDeadline& deadline);

  /// Stops all for a failure of this process. Returns: the error that all stopped with, which may be an
  /// earlier one.
  Error stop(const Error& error);
  /// The same outside of a step, where nobody has to be waited for to say how far its instructions are.
  void stop_unbegun(const Error& error);
  [[nodiscard]] bool stopped() const { return stopped_; }
  /// Requires: stopped().
  [[nodiscard]] Error stop_reason();
  /// Errors: throws what one of the processes has stopped with.
  void throw_if_stopped();

  /// Sends the states of the instructions here to process 0. `last`: no others follow in this step; `states`
  /// is empty where they are not known.
  void send_states(std::span<const InstructionState> states, bool last);
  /// After a stop, of all processes at process 0, which waits for them; elsewhere empty.
  [[nodiscard]] std::vector<InstructionState> last_states();
  /// After a stop what all processes wait for, at process 0; elsewhere empty, unless process 0 is missing:
  /// then what this one waits for.
  [[nodiscard]] std::vector<Wait> report();
  /// A failure with who did not answer and that report.
  [[nodiscard]] Error explained(Error error);
  /// False once a process is gone or was given up.
  [[nodiscard]] bool all_here() const { return alone() || in_.processes->all_here(); }
  [[nodiscard]] std::vector<int> gone() const { return alone() ? std::vector<int>() : in_.processes->gone(); }
  /// At process 0, completes the result by those of the others; these hand theirs in, and return when it has
  /// all. The traces begin with the first process, on the clock of process 0; all have kept those of the same
  /// steps. Errors: as assemble().
  void collect(RunResult& result, const std::vector<StepBegin>& begins);

  std::optional<Error> on_note(int process, std::string_view note) override;
  void on_stop(const Error& error) override;

 private:
  [[nodiscard]] LocalRanks ranks_of(int process) const;
  void put_together(RunResult& result, const std::string& own);
  void wait_for_final_states(std::unique_lock<std::mutex>& lock);

  PeersSetup in_;
  int step_ = 0;
  std::atomic<bool> stopped_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Error> stop_;
  int states_step_ = 0;
  std::vector<InstructionState> states_;  ///< of all processes, as they sent them in this step
  bool hung_ = false;                     ///< nothing can move any more in `states_`
  std::set<int> final_states_;            ///< who has sent its states after a stop
  std::set<int> silent_;                  ///< who is there and has not
  std::vector<InstructionState> own_;     ///< of all instructions as this process knows them, after a stop
};

}  // namespace ppsim::gpu_backend
