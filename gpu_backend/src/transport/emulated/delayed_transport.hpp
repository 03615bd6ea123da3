#pragma once

#include <memory>

#include "executor/action_times.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/gpu_backend/transport/transport.hpp"
#include "timer_queue.hpp"

namespace ppsim::gpu_backend {

/// Passes completions on when the time has passed that a transfer or a collective is given, counted from when
/// the ends have met. The messages of a group go side by side, and each takes the time of the longest.
class DelayedSink final : public CompletionSink {
 public:
  /// Requires: references that outlive the sink.
  DelayedSink(const Program& program, const ActionTimes& times, CompletionSink& sink)
      : program_(program), times_(times), sink_(sink) {}

  void complete(std::span<const InstructionId> ends) override;
  void in_flight() override { sink_.in_flight(); }
  void landed() override { sink_.landed(); }
  void fail(std::exception_ptr failure) override { sink_.fail(std::move(failure)); }

 private:
  [[nodiscard]] Nanoseconds time(InstructionId id) const;

  const Program& program_;
  const ActionTimes& times_;
  CompletionSink& sink_;
  TimerQueue timers_;
};

/// A transport whose messages take the time that they are given.
class DelayedTransport final : public Transport {
 public:
  /// Requires: an inner transport that tells `sink`.
  DelayedTransport(std::unique_ptr<DelayedSink> sink, std::unique_ptr<Transport> inner)
      : sink_(std::move(sink)), inner_(std::move(inner)) {}

  void begin_step() override { inner_->begin_step(); }
  void post(std::span<const Transfer> group) override { inner_->post(group); }
  void post(const CollectiveCall& call) override { inner_->post(call); }

 private:
  std::unique_ptr<DelayedSink> sink_;
  std::unique_ptr<Transport> inner_;
};

}  // namespace ppsim::gpu_backend
