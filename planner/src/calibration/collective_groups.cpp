#include "collective_groups.hpp"

#include <cmath>

#include "ppsim/workload/communication.hpp"

namespace ppsim::planner {
namespace {

double relative_error(double seconds, const MeasuredTime& measured) {
  return std::abs(seconds * 1e9 / static_cast<double>(measured.time) - 1);
}

/// Every other size, and of those between them the mean error.
std::optional<double> half_error(const MeasuredCollective& measured) {
  MeasuredCollective half{measured.operation, measured.group, {}};
  for (std::size_t i = 0; i < measured.times.size(); i += 2) half.times.push_back(measured.times[i]);
  double sum = 0;
  int count = 0;
  for (std::size_t i = 1; i < measured.times.size(); i += 2, ++count) {
    const MeasuredTime& one = measured.times[i];
    sum += relative_error(*workload::measured_seconds({&half, 1}, measured.operation, measured.group,
                                                      static_cast<double>(one.bytes)),
                          one);
  }
  if (count == 0) return std::nullopt;
  return sum / count;
}

}  // namespace

CalibrationGroup collective_group(const MeasuredCollective& measured,
                                  const std::optional<Workload>& workload) {
  const GpuGroup& group = measured.group;
  CalibrationGroup result{.name = std::string(workload::operation_name(measured.operation)) + " of " +
                                  std::to_string(group.gpus) + " GPUs, " +
                                  std::to_string(group.gpus_per_node) + " a node",
                          .observations = static_cast<std::int64_t>(measured.times.size())};
  double before = 0;
  double after = 0;
  for (const MeasuredTime& one : measured.times) {
    const auto bytes = static_cast<double>(one.bytes);
    result.measured_ns += static_cast<double>(one.time);
    after +=
        relative_error(*workload::measured_seconds({&measured, 1}, measured.operation, group, bytes), one);
    if (workload)
      before +=
          relative_error(workload::communication_seconds(*workload, measured.operation, group, bytes), one);
  }
  const auto count = static_cast<double>(measured.times.size());
  result.after = after / count;
  if (workload) result.before = before / count;
  result.other_half = half_error(measured);
  return result;
}

}  // namespace ppsim::planner
