#pragma once

#include <chrono>
#include <optional>

#include "ppsim/gpu_backend/executor/execute.hpp"

namespace ppsim::gpu_backend {

/// How long the steps of a run may take.
class StepDeadline {
 public:
  /// Requires: options that outlive it.
  explicit StepDeadline(const RunOptions& options) : options_(options) {}

  /// A step is over; the time of the first one is the measure of the others.
  void took(Nanoseconds duration) {
    if (!first_ns_) first_ns_ = duration;
  }
  /// Of the next step; none: it may take for ever.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> limit() const;
  /// The error of a step that takes longer.
  [[nodiscard]] Error late() const;

 private:
  [[nodiscard]] double seconds() const;

  const RunOptions& options_;
  std::optional<Nanoseconds> first_ns_;
};

}  // namespace ppsim::gpu_backend
