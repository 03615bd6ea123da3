#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "device/cuda/gpu_device.hpp"
#include "gpu_channels.hpp"
#include "gpu_collectives.hpp"
#include "ppsim/core/execution/timed_trace.hpp"
#include "ppsim/gpu_backend/executor/execute.hpp"
#include "streams/stream_plan.hpp"

namespace ppsim::gpu_backend {

/// The input of the run of one rank. Everything outlives it.
struct RankSetup {
  const GpuApi& api;
  const Program& program;
  const StreamPlan& plan;
  RankDevice& device;
  RankActions& actions;
  GpuCollectives& collectives;
  GpuChannels& channels;
  bool profile = true;  ///< records the start and the end of every instruction
  bool graphs = false;  ///< the list will be captured
};

/// The list of one rank as work on streams: one generic loop over its instructions, that runs them or
/// captures them in a graph. Every stream and event is there once the object is. Errors: throws BackendError
/// that names the action.
class RankRun {
 public:
  explicit RankRun(const RankSetup& setup);

  /// Enqueues an action of every kind and stage on an idle stream, each on a pool of zeros. A kernel is
  /// loaded when it is launched first, and that may wait for every stream of the device: inside a step for
  /// those, too, that wait for the rank that launches it.
  void warm_up();
  /// Enqueues what `work` does on an idle stream.
  void prepare(const std::function<void(GpuStream)>& work);
  [[nodiscard]] bool idle() const;

  /// Starts capturing the step; advance() goes on by an instruction. The thread that began it ends it.
  void begin_capture(bool takes);
  void end_capture();
  [[nodiscard]] bool has_captured() const { return capture_ != nullptr || leader_ != nullptr; }
  /// Makes the graph of that. Requires: has_captured().
  void make_graph(bool takes);
  /// The same within the capture that a leader began, whose graph has the step of both then.
  void join_capture(const RankRun& leader, bool takes);
  void leave_capture(const RankRun& leader);
  /// Ends a capture that failed, if one is open.
  void abandon_capture() noexcept;
  /// Lets go of the graphs, whatever runs of them: a communicator does not end before them.
  void drop_graphs() noexcept;
  [[nodiscard]] bool captured() const { return graphs_[0] != nullptr || leader_ != nullptr; }

  /// Starts a step on idle streams: by its graph where there is one, which is all then.
  void begin_step(bool takes);
  /// The same for a step that is part of a leader's graph: before the leader begins, and after.
  void await_leader();
  void follow_leader();
  /// Lets the step start no earlier than that of another rank.
  void begin_after(const RankRun& other);
  /// Enqueues as much as can be without waiting. Returns: whether that was anything.
  bool advance();
  /// Whether everything of the step is enqueued.
  [[nodiscard]] bool issued() const { return stage_ == Stage::issued; }
  /// Looks how far the streams have come. Returns: whether the step is complete. Requires: issued().
  [[nodiscard]] bool look();
  /// Of every queue the first instruction that no look has seen complete, as far as events tell.
  [[nodiscard]] std::vector<InstructionId> in_flight() const;

  /// Whether nothing is left on any stream, after an abort.
  [[nodiscard]] bool stopped() const;

  /// Whether an instruction of the rank is complete in this step; nothing where no event tells, as in a
  /// graph.
  [[nodiscard]] std::optional<bool> complete(InstructionId id) const;
  /// Start and end of every instruction, in time since the step started on `zero`, which is then `origin`:
  /// one that belongs to the chain starts no earlier than the one launched before it. Requires: a complete
  /// step, profiled; a rank of the same device.
  void read_times(TimedTrace& trace, const LaunchChain& chain, const RankRun& zero, Nanoseconds origin) const;
  /// When the host enqueued the start of the step, on its clock.
  [[nodiscard]] Nanoseconds origin() const { return origin_; }
  /// When the step started, on the host's clock, if it started on `zero` at the origin of that.
  [[nodiscard]] Nanoseconds start_time(const RankRun& zero) const;
  /// The time from the start of the step on another rank of the device to its end on this one.
  [[nodiscard]] Nanoseconds step_time(const RankRun& zero) const;
  /// The time that the host spent on the steps so far.
  [[nodiscard]] const HostTime& host_time() const { return host_; }
  [[nodiscard]] const StreamPlan& plan() const { return in_.plan; }
  /// Ordinal of the device that it is on.
  [[nodiscard]] int device() const { return in_.device.place().device; }

 private:
  enum class Stage : std::uint8_t { idle, issuing, issued };
  struct InstructionEvents {
    EventHandle start;
    EventHandle end;         ///< for the host and its clock
    EventHandle done;        ///< for other streams, where `end` does not serve them
    std::size_t number = 0;  ///< in the plan
  };

  /// The instructions of a queue, and how many of them were seen complete in this step.
  struct QueueProgress {
    std::vector<InstructionId> instructions;
    std::size_t complete = 0;
    bool known = false;  ///< events tell something of the queue
  };

  void make_events();
  void look(QueueProgress& queue) const;
  /// Returns: whether the Program has all that the instruction needs.
  bool warm_up(std::size_t number);
  [[nodiscard]] GpuStream stream(int queue) const;
  [[nodiscard]] const InstructionEvents& events(InstructionId id) const;
  [[nodiscard]] CUevent_st* completion(InstructionId id) const;
  void fork();
  void join();
  void begin_pass(bool takes);
  void begin_graph(bool takes);
  void issue(std::size_t number);
  void begin(std::size_t number);
  [[nodiscard]] bool enqueue(const HostCall& call);
  [[nodiscard]] bool enqueue_begin(std::size_t number);
  [[nodiscard]] bool enqueue_end(std::size_t number);
  [[nodiscard]] bool meet(const HostCall& call);
  void begin_on_clock();
  [[nodiscard]] bool waits_at_its_end(const StreamInstruction& instruction) const;
  void finish_for(const StreamInstruction& instruction);
  void finish(std::size_t number);
  void post(std::size_t number);
  bool enqueue_calls();
  void launch_graph(bool takes);
  void work(const StreamInstruction& instruction);
  [[nodiscard]] std::int64_t actions_of(const StreamInstruction& instruction) const;
  [[nodiscard]] std::vector<StreamTransfer> transfers(const StreamInstruction& instruction) const;
  void find_transfers();
  void post_transfers(std::size_t number);
  void record_timed(CUevent_st* event, GpuStream stream) const;
  [[nodiscard]] std::size_t queue_number(int queue) const;
  [[nodiscard]] GpuStream compute_stream() const { return stream(Program::kComputeQueue); }

  RankSetup in_;
  InstructionId first_;
  std::vector<StreamHandle> streams_;      ///< per queue of the plan
  std::vector<EventHandle> joins_;         ///< per queue of the plan
  std::vector<InstructionEvents> events_;  ///< per instruction of the rank
  std::vector<std::string> names_;         ///< per instruction of the plan
  /// Per instruction of the plan: the messages of a transfer that has all that it needs.
  std::vector<std::vector<StreamTransfer>> transfers_;
  EventHandle fork_;
  EventHandle started_;
  EventHandle ended_;
  /// Per queue of the plan, in pinned memory: 1 + the number in the plan of the last communication that is
  /// over, which a graph writes as it goes. What a step has done is known even where no event tells.
  std::span<CudaValue> progress_;
  std::vector<QueueProgress> seen_;  ///< per queue of the plan
  GpuHandle<CUgraph_st> capture_;    ///< that has ended
  GraphHandle graphs_[2];            ///< of a step, and of one whose OPTs hand out gradients
  const RankRun* leader_ = nullptr;  ///< whose graph has the steps of this rank
  Stage stage_ = Stage::idle;
  bool capturing_ = false;
  std::size_t next_ = 0;         ///< into what the host enqueues
  std::vector<bool> has_ended_;  ///< per instruction of the plan: its end is enqueued
  /// Steps that are issued, with no event yet that tells their end: one of a queue at most.
  std::vector<std::size_t> unfinished_;
  Nanoseconds origin_ = 0;
  std::int64_t listed_ = 0;  ///< actions of the plan
  HostTime host_;
};

}  // namespace ppsim::gpu_backend
