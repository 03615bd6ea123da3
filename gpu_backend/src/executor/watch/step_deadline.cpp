#include "step_deadline.hpp"

#include <algorithm>

#include "ppsim/core/ir/concatenated.hpp"

namespace ppsim::gpu_backend {
namespace {

std::optional<std::chrono::nanoseconds> limit_of(double seconds) {
  constexpr double kLongest = 1e9;  // a longer time does not fit and never passes
  if (seconds == 0 || seconds > kLongest) return std::nullopt;
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
}

}  // namespace

Timeout timeout_of(const RunOptions& options) {
  constexpr double kMin = 10;  // seconds
  const double given = options.deadline_s.value_or(0);
  return limit_of(given > 0 ? std::max(given, kMin) : options.deadline_rule.meeting_s);
}

std::optional<std::chrono::nanoseconds> StepDeadline::limit() const { return limit_of(seconds()); }

double StepDeadline::seconds() const {
  constexpr double kNanosecondsPerSecond = 1e9;
  if (options_.deadline_s) return *options_.deadline_s;
  const DeadlineRule& rule = options_.deadline_rule;
  if (!first_ns_) return rule.first_s;
  return rule.times * static_cast<double>(*first_ns_) / kNanosecondsPerSecond + rule.more_s;
}

Error StepDeadline::late() const {
  return {ErrorCode::io, concatenated("a step did not finish within its deadline of ", seconds(), " s")};
}

}  // namespace ppsim::gpu_backend
