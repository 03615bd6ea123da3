#include "step_deadline.hpp"

#include <sstream>

namespace ppsim {

std::optional<std::chrono::nanoseconds> StepDeadline::limit() const {
  constexpr double kLongest = 1e9;  // seconds; what is longer does not fit and never passes
  const double limit = seconds();
  if (limit == 0 || limit > kLongest) return std::nullopt;
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(limit));
}

double StepDeadline::seconds() const {
  constexpr double kNanosecondsPerSecond = 1e9;
  if (options_.deadline_s) return *options_.deadline_s;
  const DeadlineRule& rule = options_.deadline_rule;
  if (!first_ns_) return rule.first_s;
  return rule.times * static_cast<double>(*first_ns_) / kNanosecondsPerSecond + rule.more_s;
}

Error StepDeadline::late() const {
  std::ostringstream text;
  text << "a step did not finish within its deadline of " << seconds() << " s";
  return {ErrorCode::io, text.str()};
}

}  // namespace ppsim
