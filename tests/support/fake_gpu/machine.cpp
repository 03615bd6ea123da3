#include "support/fake_gpu/machine.hpp"

#include <algorithm>
#include <utility>

namespace ppsim::test {

FakeStream* FakeMachine::make_stream(FakeStream stream) {
  stream.lane = make_lane();
  streams_.push_back(std::move(stream));
  return &streams_.back();
}

FakeEvent* FakeMachine::make_event(FakeEvent event) {
  events_.push_back(event);
  return &events_.back();
}

TaskId FakeMachine::enqueue(FakeStream& stream, TaskDraft draft) {
  draft.process = stream.process;
  if (stream.capture != nullptr) return capture(stream, std::move(draft));
  std::vector<TaskId> after = draft.after;
  if (stream.tail) after.push_back(*stream.tail);
  const bool advances = draft.advances_stream;
  const std::size_t lane = draft.lane.value_or(stream.lane);
  const bool queues = one_queue_ && draft.queues;
  const TaskId id = add(std::move(draft), lane, after);
  if (queues) queue_up(id, stream.device);
  if (tasks_[id].open == 0) start(id);
  if (advances) stream.tail = id;
  return id;
}

TaskId FakeMachine::capture(FakeStream& stream, TaskDraft draft) {
  FakeGraph& graph = *stream.capture;
  if (stream.tail) draft.after.push_back(*stream.tail);
  if (!draft.lane) draft.lane = graph.lanes.at(&stream);
  const TaskId id = graph.tasks.size();
  if (draft.advances_stream) stream.tail = id;
  graph.tasks.push_back(std::move(draft));
  return id;
}

TaskId FakeMachine::add(TaskDraft draft, std::size_t lane, const std::vector<TaskId>& after) {
  const TaskId id = tasks_.size();
  Task& task = tasks_.emplace_back();
  task.draft = std::move(draft);
  task.lane = lane;
  task.number = ++lane_size_[lane];
  task.clock = host_[task.draft.process];
  for (const TaskId before : after) {
    if (tasks_[before].done) {
      merge(task.clock, tasks_[before].clock);
    } else {
      tasks_[before].followers.push_back(id);
      ++task.open;
    }
  }
  for (const TaskId before : task.draft.behind) {
    if (tasks_[before].done) continue;
    tasks_[before].held.push_back(id);
    ++task.open;
  }
  return id;
}

void FakeMachine::queue_up(TaskId id, int device) {
  const auto [last, first] = queued_.try_emplace(device, id);
  if (first) return;
  Task& ahead = tasks_[last->second];
  tasks_[id].ahead = std::exchange(last->second, id);
  if (ahead.started) return;
  ahead.next = id;
  ++tasks_[id].open;
}

void FakeMachine::start(TaskId id) {
  Task& task = tasks_[id];
  task.started = true;
  if (task.draft.kind == TaskKind::plain) {
    due_.push({now_ + task.draft.duration, id});
  } else if (task.draft.kind == TaskKind::operation) {
    operations_.push_back(id);
    task.draft.arrive(id);
  } else {
    value_waits_.push_back(id);
    look_at_values();
  }
  if (task.next && --tasks_[*task.next].open == 0) start(*task.next);
}

void FakeMachine::look_at_values() {
  for (const TaskId id : std::vector<TaskId>(value_waits_)) {
    Task& task = tasks_[id];
    if (!task.draft.ready()) continue;
    const auto writer = flag_writer_.find(task.draft.flag);
    if (writer != flag_writer_.end()) merge(task.clock, tasks_[writer->second].clock);
    std::erase(value_waits_, id);
    due_.push({now_, id});
  }
}

void FakeMachine::meet(TaskId task, Nanoseconds duration, const std::vector<TaskId>& known) {
  for (const TaskId other : known) {
    merge(tasks_[task].clock, tasks_[other].clock);
    LaneClock own;
    own.resize(tasks_[other].lane + 1, 0);
    own[tasks_[other].lane] = tasks_[other].number;
    merge(tasks_[task].clock, own);
  }
  std::erase(operations_, task);
  due_.push({now_ + duration, task});
}

void FakeMachine::release(const std::vector<TaskId>& operations) {
  if (operations.empty()) return;
  works_ = judges_ = false;
  for (const TaskId id : operations) {
    std::erase(operations_, id);
    due_.push({now_, id});
  }
}

void FakeMachine::run(Task& task) {
  LaneClock own;
  own.resize(task.lane + 1, 0);
  own[task.lane] = task.number;
  const Accessor who{task.lane, task.number, task.clock, task.draft.name, task.draft.process};
  bool works = works_ || task.draft.flag != 0;
  if (judges_) {
    for (const auto memory : task.draft.reads) works = memory_.read(memory, who) && works;
    for (const auto memory : task.draft.writes) works = memory_.write(memory, who) && works;
  }
  merge(task.clock, own);
  if (task.draft.work && works) task.draft.work();
}

void FakeMachine::finish(TaskId id) {
  Task& task = tasks_[id];
  run(task);
  task.done = true;
  task.end = now_;
  if (task.draft.flag != 0 && task.draft.kind == TaskKind::plain) flag_writer_[task.draft.flag] = id;
  for (const TaskId follower : task.followers) {
    merge(tasks_[follower].clock, task.clock);
    if (--tasks_[follower].open == 0) start(follower);
  }
  for (const TaskId held : task.held) {
    if (--tasks_[held].open == 0) start(held);
  }
  task.draft.work = {};
  if (!value_waits_.empty()) look_at_values();
}

bool FakeMachine::advance() {
  look_at_values();  // the host writes numbers, too
  if (due_.empty()) return false;
  now_ = std::max(now_, due_.top().first);
  while (!due_.empty() && due_.top().first <= now_) {
    const TaskId id = due_.top().second;
    due_.pop();
    finish(id);
  }
  return true;
}

void FakeMachine::record(FakeEvent& event, FakeStream& stream, bool external) {
  if (stream.capture != nullptr && external) {
    const TaskId id = enqueue(stream, {.name = "an event of the host", .queues = false});
    stream.capture->told.emplace_back(id, &event);
    return;
  }
  event.task = enqueue(stream, {.name = "an event", .queues = false});
  event.capture = stream.capture;
}

void FakeMachine::wait(FakeStream& stream, FakeEvent& event) {
  if (!event.task) return;  // as CUDA: an event that was never recorded is complete
  if (event.capture != stream.capture) {
    if (event.capture == nullptr || event.capture->origin == nullptr || stream.capture != nullptr) {
      return faults_.add(FaultKind::bad_capture,
                         stream.name + " waits for an event from outside of its capture");
    }
    join_capture(stream, *event.capture);
  }
  enqueue(stream, {.name = "a wait for an event", .after = {*event.task}});
}

bool FakeMachine::complete(const FakeEvent& event) {
  if (event.capture != nullptr) {
    faults_.add(FaultKind::bad_capture, "the host asks for an event that was recorded in a capture");
    return true;
  }
  const std::optional<TaskId> task = event.lender == nullptr ? event.task : event.lender->task;
  if (!task) return true;
  if (!tasks_[*task].done) return false;
  merge(host_[event.process], tasks_[*task].clock);
  return true;
}

bool FakeMachine::complete(const FakeStream& stream) {
  if (stream.capture != nullptr) {
    faults_.add(FaultKind::bad_capture, "the host asks for " + stream.name + ", which is captured");
    return true;
  }
  if (!stream.tail) return true;
  if (!tasks_[*stream.tail].done) return false;
  merge(host_[stream.process], tasks_[*stream.tail].clock);
  return true;
}

Nanoseconds FakeMachine::time_of(const FakeEvent& event) const {
  return event.task ? tasks_[*event.task].end : 0;
}

void FakeMachine::join_capture(FakeStream& stream, FakeGraph& graph) {
  graph.tails[&stream] = stream.tail;
  graph.lanes.try_emplace(&stream, make_lane());
  stream.capture = &graph;
  stream.tail.reset();
}

void FakeMachine::begin_capture(FakeStream& stream) {
  if (stream.capture != nullptr)
    return faults_.add(FaultKind::bad_capture, stream.name + " is captured already");
  graphs_.push_back({.origin = &stream});
  join_capture(stream, graphs_.back());
}

std::vector<bool> FakeMachine::ancestors(const FakeGraph& graph, TaskId last) {
  std::vector<bool> reached(graph.tasks.size(), false);
  reached[last] = true;
  for (TaskId id = last + 1; id-- > 0;) {
    if (!reached[id]) continue;
    for (const TaskId before : graph.tasks[id].after) reached[before] = true;
  }
  return reached;
}

FakeGraph* FakeMachine::end_capture(FakeStream& stream) {
  FakeGraph* const graph = stream.capture;
  if (graph == nullptr || graph->origin != &stream) {
    faults_.add(FaultKind::bad_capture, stream.name + " began no capture");
    return nullptr;
  }
  if (stream.tail) {
    const std::vector<bool> joined = ancestors(*graph, *stream.tail);
    for (TaskId id = 0; id < joined.size(); ++id) {
      if (!joined[id]) graph->unjoined.push_back(graph->tasks[id].name);
    }
  }
  for (const auto& [one, tail] : graph->tails) {
    one->tail = tail;
    one->capture = nullptr;
  }
  graph->origin = nullptr;
  return graph;
}

void FakeMachine::launch(FakeGraph& graph, FakeStream& stream) {
  std::vector<TaskId> clones;
  std::vector<TaskId> base;
  if (stream.tail) base.push_back(*stream.tail);
  if (graph.launched) base.push_back(*graph.launched);
  for (const TaskDraft& draft : graph.tasks) {
    std::vector<TaskId> after = draft.after.empty() ? base : std::vector<TaskId>();
    for (const TaskId before : draft.after) after.push_back(clones[before]);
    TaskDraft clone = draft;
    for (TaskId& before : clone.behind) before = clones[before];
    const std::size_t lane = *draft.lane;
    clones.push_back(add(std::move(clone), lane, after));
    if (tasks_[clones.back()].open == 0) start(clones.back());
  }
  for (const auto& [task, event] : graph.told) {
    event->task = clones[task];
    event->capture = nullptr;
  }
  graph.launched = enqueue(stream, {.name = "the end of a graph", .after = clones, .queues = false});
}

bool FakeMachine::knows(TaskId task, TaskId earlier) const {
  return at(tasks_[task].clock, tasks_[earlier].lane) >= tasks_[earlier].number;
}

bool FakeMachine::is_held_up(TaskId id) const {
  const Task& task = tasks_[id];
  return !task.started && task.ahead && !tasks_[*task.ahead].started;
}

std::vector<std::string> FakeMachine::stuck() const {
  std::vector<std::string> names;
  for (const TaskId id : operations_) names.push_back(tasks_[id].draft.name);
  for (const TaskId id : value_waits_) names.push_back(tasks_[id].draft.name);
  for (const Task& task : tasks_) {
    for (const TaskId before : task.draft.behind) {
      if (!task.started && !tasks_[before].done)
        names.push_back(task.draft.name + " is launched after " + tasks_[before].draft.name);
    }
  }
  for (TaskId id = 0; id < tasks_.size(); ++id) {  // behind the one at the head of its queue
    if (!is_held_up(id) || is_held_up(*tasks_[id].ahead)) continue;
    names.push_back(tasks_[id].draft.name + " is behind " + tasks_[*tasks_[id].ahead].draft.name +
                    " in the hardware queue");
  }
  return names;
}

int FakeMachine::streams_of(const void* green) const {
  const auto own = [&](const FakeStream& one) { return one.alive && one.green == green; };
  return static_cast<int>(std::count_if(streams_.begin(), streams_.end(), own));
}

void FakeMachine::report_leaks() {
  for (const FakeStream& stream : streams_) {
    if (stream.alive) faults_.add(FaultKind::leak, stream.name);
  }
  for (const FakeEvent& event : events_) {
    if (event.alive) faults_.add(FaultKind::leak, "an event");
  }
  for (const FakeGraph& graph : graphs_) {
    if (graph.alive) faults_.add(FaultKind::leak, "a graph");
  }
}

}  // namespace ppsim::test
