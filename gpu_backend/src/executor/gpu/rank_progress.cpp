// How far a rank has come in a step, and when it came there.

#include <algorithm>
#include <atomic>

#include "rank_run.hpp"

namespace ppsim::gpu_backend {

bool RankRun::look() {
  for (QueueProgress& queue : seen_) look(queue);
  return in_.device.complete(ended_.get());
}

void RankRun::look(QueueProgress& queue) const {
  for (std::size_t i = queue.complete; i < queue.instructions.size(); ++i) {
    const std::optional<bool> done = complete(queue.instructions[i]);
    queue.known = queue.known || done.has_value();
    if (done == true) queue.complete = i + 1;
    if (done == false) return;
  }
}

std::vector<InstructionId> RankRun::in_flight() const {
  std::vector<InstructionId> result;
  for (const QueueProgress& queue : seen_) {
    if (queue.known && queue.complete < queue.instructions.size())
      result.push_back(queue.instructions[queue.complete]);
  }
  return result;
}

bool RankRun::stopped() const {
  return std::ranges::none_of(streams_, [&](const StreamHandle& one) {
    return in_.device.cuda().stream_query(one.get()) == kCudaNotReady;
  });
}

std::optional<bool> RankRun::complete(InstructionId id) const {
  const std::size_t number = events(id).number;
  if (captured()) {
    if (!is_communication(in_.program.actions(id).front().kind)) return std::nullopt;
    CudaValue& over = progress_[queue_number(in_.plan.instructions[number].queue)];
    return std::atomic_ref(over).load() > number;
  }
  if (number >= has_ended_.size() || in_.plan.instructions[number].id != id || !has_ended_[number])
    return false;
  CUevent_st* const event = completion(id);
  return event == nullptr ? std::nullopt : std::optional(in_.device.complete(event));
}

/// The event before a launch is recorded when its stream is there; the launch itself may wait for others.
void RankRun::read_times(TimedTrace& trace, const LaunchChain& chain, const RankRun& zero,
                         Nanoseconds origin) const {
  Nanoseconds launched = in_.device.between(zero.started_.get(), started_.get());
  for (const StreamInstruction& instruction : in_.plan.instructions) {
    const InstructionEvents& of = events(instruction.id);
    const Nanoseconds end = in_.device.between(zero.started_.get(), of.end.get());
    Nanoseconds start = in_.device.between(zero.started_.get(), of.start.get());
    if (is_chained(chain, in_.program, instruction.id))
      launched = start = std::min(std::max(start, launched), end);
    trace.spans[instruction.id] = {{origin + start, 0}, {origin + end, 0}};
  }
}

Nanoseconds RankRun::start_time(const RankRun& zero) const {
  return zero.origin_ + in_.device.between(zero.started_.get(), started_.get());
}

Nanoseconds RankRun::step_time(const RankRun& zero) const {
  return in_.device.between(zero.started_.get(), ended_.get());
}

}  // namespace ppsim::gpu_backend
