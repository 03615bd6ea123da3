#include "monitor.hpp"

#include <algorithm>
#include <utility>

namespace ppsim::gpu_backend {

Monitor::Monitor(const Input& input, MemoryMeter& memory)
    : program_(input.program),
      graph_(input.graph),
      alone_(input.alone),
      memory_(memory),
      queues_(input.queues.size()) {
  std::size_t queue = 0;
  for (const RankId rank : program_.pipeline().rank_ids()) {
    queue_begin_.push_back(queue);
    while (queue < input.queues.size() && input.queues[queue].rank == rank) ++queue;
  }
  queue_begin_.push_back(queue);
}

void Monitor::begin_step() {
  const std::lock_guard lock(mutex_);
  states_.assign(program_.size(), InstructionState::waiting);
  open_ends_.assign(program_.size(), 1);
  for (const InstructionId id : program_.ids()) {
    const auto actions = program_.actions(id);
    if (is_communication(actions.front().kind))
      open_ends_[id.index()] = static_cast<std::uint32_t>(actions.size());
  }
  trace_.spans = TimedTrace::Spans(program_.size(), Span{{-1, 0}, {-1, 0}});
  memory_.begin_step();
  running_ = queues_.size();
  left_ = 0;
  end_ = queues_.empty() ? std::optional(StepEnd::finished) : std::nullopt;
  last_time_ = -1;
}

void Monitor::start_clock() {
  const std::lock_guard lock(mutex_);
  origin_ = std::chrono::steady_clock::now();
}

Instant Monitor::now() {
  const auto elapsed = std::chrono::steady_clock::now() - origin_;
  const auto time = std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count();
  last_time_ = std::max<Nanoseconds>(last_time_ + 1, time);
  return {last_time_, 0};
}

bool Monitor::ready(InstructionId id) const {
  const auto before = graph_.predecessors_of(id);
  return !graph_.waits_forever(id) && std::ranges::all_of(before, [&](InstructionId p) {
    return states_[p.index()] == InstructionState::complete;
  });
}

bool Monitor::satisfied(const QueueState& queue) const {
  switch (queue.wait) {
    case Wait::none:
      return false;
    case Wait::to_start:
      return ready(queue.instruction);
    case Wait::to_complete:
      return states_[queue.instruction.index()] == InstructionState::complete;
  }
  return false;
}

bool Monitor::start(std::size_t queue, InstructionId id) {
  std::unique_lock lock(mutex_);
  if (!wait(lock, queue, id, Wait::to_start)) return false;
  states_[id.index()] = InstructionState::started;
  ++changes_;
  trace_.spans[id].start = now();
  memory_.start(id);
  return true;
}

bool Monitor::await(std::size_t queue, InstructionId id) {
  std::unique_lock lock(mutex_);
  return wait(lock, queue, id, Wait::to_complete);
}

bool Monitor::wait(std::unique_lock<std::mutex>& lock, std::size_t queue, InstructionId id, Wait what) {
  QueueState& state = queues_[queue];
  state.wait = what;
  state.instruction = id;
  if (satisfied(state)) state.wait = Wait::none;
  if (state.wait != Wait::none && !end_) stop_running();
  state.wake.wait(lock, [&] { return state.wait == Wait::none || end_.has_value(); });
  return !end_;
}

void Monitor::stop_running() {
  if (--running_ > 0) return;
  if (left_ == queues_.size()) {
    end(StepEnd::finished);
  } else if (alone_) {
    end(StepEnd::deadlock);
  }
}

void Monitor::end(StepEnd how) {
  if (end_) return;
  end_ = how;
  for (QueueState& queue : queues_) queue.wake.notify_one();
  ended_.notify_all();
}

void Monitor::complete(std::span<const InstructionId> ends) {
  const std::lock_guard lock(mutex_);
  if (end_) return;  // completions after the end of a step are no part of it
  const Instant at = now();
  for (const InstructionId id : ends) {
    if (--open_ends_[id.index()] == 0) finish(id, at);
  }
  for (const InstructionId id : ends) wake_rank(program_.rank_of(id));
}

void Monitor::finish(InstructionId id, Instant at) {
  states_[id.index()] = InstructionState::complete;
  ++changes_;
  trace_.spans[id].end = at;
  memory_.complete(id);  // before anything starts that may reuse the memory
}

void Monitor::wake_rank(RankId rank) {
  for (std::size_t queue = queue_begin_[rank.index()]; queue < queue_begin_[rank.index() + 1]; ++queue) {
    QueueState& state = queues_[queue];
    if (!satisfied(state)) continue;
    state.wait = Wait::none;
    ++running_;
    state.wake.notify_one();
  }
}

void Monitor::in_flight() {
  const std::lock_guard lock(mutex_);
  ++running_;
}

void Monitor::landed() {
  const std::lock_guard lock(mutex_);
  if (!end_) stop_running();
}

void Monitor::leave() {
  const std::lock_guard lock(mutex_);
  ++left_;
  stop_running();
}

void Monitor::fail(std::exception_ptr failure) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::move(failure);
  end(StepEnd::failed);
}

void Monitor::stop(StepEnd how) {
  const std::lock_guard lock(mutex_);
  end(how);
}

std::optional<StepEnd> Monitor::wait_for_end_within(std::chrono::nanoseconds time) {
  std::unique_lock lock(mutex_);
  ended_.wait_for(lock, time, [&] { return end_.has_value(); });
  return end_;
}

Monitor::Snapshot Monitor::snapshot() {
  const std::lock_guard lock(mutex_);
  return {changes_, running_ == 0, states_};
}

StepEnd Monitor::wait_for_end(std::optional<std::chrono::nanoseconds> deadline) {
  std::unique_lock lock(mutex_);
  const auto over = [&] { return end_.has_value(); };
  if (!deadline) {
    ended_.wait(lock, over);
  } else if (!ended_.wait_for(lock, *deadline, over)) {
    end(StepEnd::late);
  }
  return *end_;
}

}  // namespace ppsim::gpu_backend
