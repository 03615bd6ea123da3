#pragma once

#include <memory>
#include <mutex>

#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/ir/tables.hpp"
#include "ppsim/gpu_backend/transport/transport.hpp"
#include "timer_queue.hpp"

namespace ppsim::gpu_backend {

/// Passes completions on when the time has passed that a table says a transfer or a collective takes, counted
/// from when the ends have met. In a group, ends to one peer count as if they went side by side.
class DelayedSink final : public CompletionSink {
 public:
  /// Requires: references that outlive the sink.
  DelayedSink(const Program& program, const CostTable& costs, CompletionSink& sink)
      : program_(program), costs_(costs), sink_(sink) {}

  void complete(std::span<const InstructionId> ends) override;
  void in_flight() override { sink_.in_flight(); }
  void landed() override { sink_.landed(); }
  void fail(std::exception_ptr failure) override { sink_.fail(std::move(failure)); }

 private:
  [[nodiscard]] Nanoseconds cost(InstructionId id) const;

  const Program& program_;
  const CostTable& costs_;
  CompletionSink& sink_;
  TimerQueue timers_;
};

/// A transport without content whose messages take the time of a table.
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
