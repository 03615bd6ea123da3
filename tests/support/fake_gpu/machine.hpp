#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "ppsim/core/ir/units.hpp"
#include "support/fake_gpu/memory.hpp"

namespace ppsim::test {

using TaskId = std::size_t;

/// The role of a task: its waits beyond the tasks before it, and its meaning to others.
enum class TaskKind : std::uint8_t {
  plain,
  value_wait,  ///< until a number in memory is large enough
  operation,   ///< until its counterparts have arrived: NCCL completes it
};

/// A piece of work in the making.
struct TaskDraft {
  std::string name;
  TaskKind kind = TaskKind::plain;
  Nanoseconds duration = 0;
  std::vector<std::span<const std::byte>> reads = {};
  std::vector<std::span<const std::byte>> writes = {};
  std::function<void()> work = {};
  std::function<bool()> ready = {};                ///< of a value_wait
  std::uint64_t flag = 0;                          ///< address of the number that it waits for, or writes
  std::function<void(TaskId)> arrive = {};         ///< of an operation: it has started
  std::optional<std::size_t> lane = std::nullopt;  ///< empty: its stream's
  std::vector<TaskId> after = {};                  ///< predecessors beyond those of its stream
  std::vector<TaskId> behind = {};                 ///< launched before: waited for, with no order of memory
  bool queues = true;                              ///< later tasks of its hardware queue wait for it
  bool advances_stream = true;                     ///< later tasks of the stream wait for it
  int process = 0;                                 ///< that of its stream
  std::string kernel = {};                         ///< which is loaded when it is launched first; empty: none
};

struct FakeGraph;

/// A stream is the tail of a chain of tasks.
struct FakeStream {
  std::string name;
  int device = 0;
  int process = 0;
  std::size_t lane = 0;
  std::optional<TaskId> tail = std::nullopt;  ///< into the tasks, or those of the capture
  FakeGraph* capture = nullptr;
  bool alive = true;
  const void* green = nullptr;  ///< the green context that it is of; null: the primary one
};

struct FakeEvent {
  int device = 0;
  int process = 0;
  bool timing = false;
  bool shared = false;                        ///< other processes may open it
  std::optional<TaskId> task = std::nullopt;  ///< that it follows
  FakeGraph* capture = nullptr;               ///< that the task belongs to
  bool alive = true;
  FakeEvent* lender = nullptr;  ///< of one that another process has made, whose state it has
  int borrowers = 0;
};

/// Tasks that are enqueued by launching them.
struct FakeGraph {
  std::vector<TaskDraft> tasks;                        ///< `after` numbers tasks of the graph
  std::vector<std::pair<TaskId, FakeEvent*>> told;     ///< events that a task tells the host
  std::map<FakeStream*, std::optional<TaskId>> tails;  ///< of the streams that take part, before
  std::map<FakeStream*, std::size_t> lanes;            ///< of the graph for them
  FakeStream* origin = nullptr;                        ///< null once it has ended
  std::optional<TaskId> launched = std::nullopt;       ///< end of the last launch
  std::vector<std::string> unjoined = {};              ///< tasks that its end does not wait for
  bool alive = true;
};

/// Streams, events and graphs of all devices in virtual time. A task runs when its stream has reached it and
/// its predecessors are complete; time passes only while the host pauses.
class FakeMachine {
 public:
  /// `one_queue`: a device has one hardware queue, as with CUDA_DEVICE_MAX_CONNECTIONS=1. A task of any of
  /// its streams starts only when those enqueued before have started.
  FakeMachine(Faults& faults, FakeMemory& memory, bool one_queue)
      : faults_(faults), memory_(memory), one_queue_(one_queue) {}

  [[nodiscard]] FakeStream* make_stream(FakeStream stream);
  [[nodiscard]] FakeEvent* make_event(FakeEvent event);
  TaskId enqueue(FakeStream& stream, TaskDraft draft);
  void record(FakeEvent& event, FakeStream& stream, bool external);
  void wait(FakeStream& stream, FakeEvent& event);
  /// A query by the host of its process.
  [[nodiscard]] bool complete(const FakeEvent& event);
  [[nodiscard]] bool complete(const FakeStream& stream);
  [[nodiscard]] Nanoseconds time_of(const FakeEvent& event) const;

  void begin_capture(FakeStream& stream);
  [[nodiscard]] FakeGraph* end_capture(FakeStream& stream);
  void launch(FakeGraph& graph, FakeStream& stream);

  [[nodiscard]] Nanoseconds now() const { return now_; }
  /// Lets time pass to the next completion. Returns: false when nothing will ever complete, unless the host
  /// writes a number.
  bool advance();
  void skip(Nanoseconds time) { now_ += time; }

  /// Completes an operation after `duration`. Tasks that follow it know how far the tasks `known` have come.
  void meet(TaskId task, Nanoseconds duration, const std::vector<TaskId>& known);
  /// Stops checking tasks: nothing could complete any more, and tasks released now run in any order.
  void stop_judging() { judges_ = false; }
  /// Sets the work of a task at its completion. Requires: it is not complete.
  void on_finish(TaskId task, std::function<void()> work) { tasks_[task].draft.work = std::move(work); }
  /// Ends operations that never complete. From here on tasks do nothing, and are not checked.
  void release(const std::vector<TaskId>& operations);
  [[nodiscard]] std::size_t make_lane() { return lane_count_++; }
  [[nodiscard]] bool knows(TaskId task, TaskId earlier) const;
  [[nodiscard]] const std::string& name(TaskId task) const { return tasks_[task].draft.name; }

  /// How many streams of a green context are still there.
  [[nodiscard]] int streams_of(const void* green) const;
  /// The task at which each blocked stream stopped.
  [[nodiscard]] std::vector<std::string> stuck() const;
  void report_leaks();

 private:
  struct Task {
    TaskDraft draft;
    std::size_t lane = 0;
    std::uint32_t number = 0;
    std::size_t open = 0;  ///< tasks that it waits for
    std::vector<TaskId> followers = {};
    std::vector<TaskId> held = {};               ///< launched after it
    std::optional<TaskId> ahead = std::nullopt;  ///< in the hardware queue
    std::optional<TaskId> next = std::nullopt;   ///< that waits for its start in the hardware queue
    LaneClock clock = {};
    Nanoseconds end = 0;
    bool started = false;
    bool done = false;
  };

  /// Requires: draft.behind numbers tasks.
  TaskId add(TaskDraft draft, std::size_t lane, const std::vector<TaskId>& after);
  /// Makes a task, which does not start yet, the last one of a hardware queue.
  void queue_up(TaskId id, int device);
  [[nodiscard]] bool is_held_up(TaskId id) const;
  TaskId capture(FakeStream& stream, TaskDraft draft);
  void join_capture(FakeStream& stream, FakeGraph& graph);
  static std::vector<bool> ancestors(const FakeGraph& graph, TaskId last);
  void start(TaskId id);
  void finish(TaskId id);
  void run(Task& task);
  void look_at_values();

  Faults& faults_;
  FakeMemory& memory_;
  bool one_queue_ = false;
  std::map<int, TaskId> queued_;  ///< the last one of each device's hardware queue
  std::deque<FakeStream> streams_;
  std::deque<FakeEvent> events_;
  std::deque<FakeGraph> graphs_;
  std::deque<Task> tasks_;
  std::size_t lane_count_ = 0;
  std::map<std::size_t, std::uint32_t> lane_size_;
  std::map<std::uint64_t, TaskId> flag_writer_;
  std::map<int, LaneClock> host_;   ///< per process: the tasks that its host knows to be complete
  std::vector<TaskId> operations_;  ///< started and not complete
  std::vector<TaskId> value_waits_;
  bool works_ = true;  ///< tasks do their work
  bool judges_ = true;
  using Due = std::pair<Nanoseconds, TaskId>;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  Nanoseconds now_ = 0;
};

}  // namespace ppsim::test
