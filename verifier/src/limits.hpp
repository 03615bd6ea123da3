#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <stdexcept>
#include <utility>

#include "ppsim/core/ir/units.hpp"
#include "ppsim/verifier/limit_reasons.hpp"

namespace ppsim::verifier {

/// Seconds since it was made, against a limit.
class Deadline {
 public:
  /// `stopped`: asked whether the answer is no longer wanted, which is as if time were over.
  explicit Deadline(double limit_s, std::function<bool()> stopped = {})
      : limit_s_(limit_s), stopped_(std::move(stopped)) {}
  [[nodiscard]] double remaining_s() const {
    return limit_s_ - std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  [[nodiscard]] bool over() const { return remaining_s() <= 0 || (stopped_ && stopped_()); }

 private:
  double limit_s_;
  std::function<bool()> stopped_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Time or memory did not suffice. Thrown from deep inside a search, caught where its question is answered.
class LimitReached : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Time and memory that a search may take; unlimited by default.
class Limits {
 public:
  Limits() = default;
  /// Requires: the deadline outlives it.
  Limits(const Deadline& deadline, std::optional<Bytes> memory) : deadline_(&deadline), memory_(memory) {}

  /// Errors: throws LimitReached when time is over.
  void poll() const {
    if (deadline_ != nullptr && deadline_->over()) throw LimitReached(kTimeLimit);
  }
  [[nodiscard]] bool memory_limited() const { return memory_.has_value(); }
  /// To be asked before so many items are allocated. Errors: throws LimitReached where they are over the
  /// budget.
  void need(std::size_t items, std::size_t bytes_of_item) const {
    if (memory_ && items > static_cast<std::size_t>(*memory_) / bytes_of_item)
      throw LimitReached(kMemoryLimit);
  }

 private:
  const Deadline* deadline_ = nullptr;
  std::optional<Bytes> memory_;
};

}  // namespace ppsim::verifier
