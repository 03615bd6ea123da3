#pragma once

#include <chrono>

namespace ppsim {

/// The reasons of answers for which time or memory did not suffice.
inline constexpr const char* kTimeLimit = "time limit reached";
inline constexpr const char* kMemoryLimit = "memory budget reached";

/// Seconds since it was made, against a limit.
class Deadline {
 public:
  explicit Deadline(double limit_s) : limit_s_(limit_s) {}
  [[nodiscard]] double remaining_s() const {
    return limit_s_ - std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  [[nodiscard]] bool over() const { return remaining_s() <= 0; }

 private:
  double limit_s_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace ppsim
