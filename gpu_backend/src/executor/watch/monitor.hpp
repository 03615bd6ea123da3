#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <vector>

#include "executor/memory/memory_meter.hpp"
#include "executor/rank_queues.hpp"
#include "ppsim/core/execution/execution_graph.hpp"
#include "ppsim/core/execution/timed_trace.hpp"
#include "ppsim/gpu_backend/transport/transport.hpp"

namespace ppsim::gpu_backend {

enum class InstructionState : std::uint8_t { waiting, started, complete };

/// How a step ended: every queue done, every queue waiting, an exception in a queue, too late, or because
/// another process stopped it.
enum class StepEnd : std::uint8_t { finished, deadlock, failed, late, stopped };

/// The one place where instructions start and complete. All transitions happen under one mutex, each later
/// than the one before; so memory is metered exactly, and a replay of the trace meters the same.
///
/// Hangs are recognised exactly. A queue either runs or waits for something that only a running queue can
/// bring about, and whoever brings it about counts it as running again at that moment: no queue running means
/// that none ever will. A transfer in flight counts as a running queue. Where other processes may bring
/// something about, the monitor only says that this one is quiet.
class Monitor final : public CompletionSink {
 public:
  struct Input {
    const Program& program;
    const ExecutionGraph& graph;
    const std::vector<RankQueue>& queues;
    bool alone = true;  ///< no other process takes part
  };
  /// Requires: references that outlive the monitor.
  Monitor(const Input& input, MemoryMeter& memory);

  /// Forgets the step before. May need memory; start_clock() does not.
  void begin_step();
  /// Before any instruction starts.
  void start_clock();

  /// Waits until the instruction may start, and starts it. Returns: false when the step is over.
  [[nodiscard]] bool start(std::size_t queue, InstructionId id);
  /// Waits until a started instruction is complete. Returns: false when the step is over.
  [[nodiscard]] bool await(std::size_t queue, InstructionId id);
  void complete(std::span<const InstructionId> ends) override;
  void in_flight() override;
  void landed() override;
  /// The queue has nothing more to do in this step.
  void leave();
  /// Ends the step. The first failure counts.
  void fail(std::exception_ptr failure) override;
  /// Ends the step, if it has not ended.
  void stop(StepEnd how);

  /// Waits for the end of the step. No queue runs for long after it, but join them before asking for anything
  /// below.
  [[nodiscard]] StepEnd wait_for_end(std::optional<std::chrono::nanoseconds> deadline);
  /// Requires: a failed step.
  [[noreturn]] void rethrow() const { std::rethrow_exception(failure_); }
  [[nodiscard]] const TimedTrace& trace() const { return trace_; }
  [[nodiscard]] std::chrono::steady_clock::time_point origin() const { return origin_; }
  [[nodiscard]] const std::vector<InstructionState>& states() const { return states_; }

  /// Waits for the end of the step, at most for so long.
  [[nodiscard]] std::optional<StepEnd> wait_for_end_within(std::chrono::nanoseconds time);
  /// How often anything has changed, and the states then.
  struct Snapshot {
    std::uint64_t changes = 0;
    bool quiet = false;  ///< every queue waits or is done
    std::vector<InstructionState> states = {};
  };
  [[nodiscard]] Snapshot snapshot();

 private:
  enum class Wait : std::uint8_t { none, to_start, to_complete };
  struct QueueState {
    std::condition_variable wake;
    Wait wait = Wait::none;
    InstructionId instruction;
  };

  [[nodiscard]] bool ready(InstructionId id) const;
  [[nodiscard]] bool satisfied(const QueueState& queue) const;
  bool wait(std::unique_lock<std::mutex>& lock, std::size_t queue, InstructionId id, Wait what);
  void stop_running();
  void end(StepEnd how);
  void finish(InstructionId id, Instant at);
  void wake_rank(RankId rank);
  [[nodiscard]] Instant now();

  const Program& program_;
  const ExecutionGraph& graph_;
  const bool alone_;
  MemoryMeter& memory_;
  std::vector<std::size_t> queue_begin_;  ///< first queue of each rank, and the end

  std::mutex mutex_;
  std::condition_variable ended_;
  std::vector<QueueState> queues_;
  std::vector<InstructionState> states_;
  std::vector<std::uint32_t> open_ends_;
  TimedTrace trace_;
  std::chrono::steady_clock::time_point origin_;
  Nanoseconds last_time_ = 0;
  std::size_t running_ = 0;  ///< queues that do not wait, and transfers in flight without one
  std::size_t left_ = 0;
  std::uint64_t changes_ = 0;
  std::optional<StepEnd> end_;
  std::exception_ptr failure_;
};

}  // namespace ppsim::gpu_backend
