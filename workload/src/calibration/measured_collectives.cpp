#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "ppsim/workload/calibration.hpp"

namespace ppsim::workload {
namespace {

bool is_within_node(const GpuGroup& group) { return group.gpus_per_node >= group.gpus; }

/// The share of its buffer that a member sends.
double sent_share(MeasuredOperation operation, int gpus) {
  if (operation == MeasuredOperation::send_receive) return 1;
  return static_cast<double>(gpus - 1) / gpus;
}

/// The nearest group: of those in a node, or over nodes with as many GPUs each, the one whose size is
/// nearest; of two the smaller one.
const MeasuredCollective* nearest_group(std::span<const MeasuredCollective> measured,
                                        MeasuredOperation operation, const GpuGroup& group) {
  const MeasuredCollective* best = nullptr;
  const auto distance = [&](const MeasuredCollective& one) { return std::abs(one.group.gpus - group.gpus); };
  for (const MeasuredCollective& one : measured) {
    if (one.operation != operation || one.times.empty()) continue;
    if (is_within_node(one.group) != is_within_node(group)) continue;
    // A message takes one link, however many others its node has.
    const bool alike =
        operation == MeasuredOperation::send_receive || one.group.gpus_per_node == group.gpus_per_node;
    if (!is_within_node(group) && !alike) continue;
    const bool better = best == nullptr || distance(one) < distance(*best) ||
                        (distance(one) == distance(*best) && one.group.gpus < best->group.gpus);
    if (better) best = &one;
  }
  return best;
}

/// In nanoseconds.
double interpolated_time(const std::vector<MeasuredTime>& times, double bytes) {
  const auto size = [](const MeasuredTime& one) { return static_cast<double>(one.bytes); };
  const auto time = [](const MeasuredTime& one) { return static_cast<double>(one.time); };
  if (bytes <= size(times.front())) return time(times.front());
  if (bytes >= size(times.back())) return time(times.back()) * bytes / size(times.back());
  const auto above = std::ranges::upper_bound(times, bytes, {}, size);
  const auto below = above - 1;
  const double way = std::log(bytes / size(*below)) / std::log(size(*above) / size(*below));
  return std::exp((1 - way) * std::log(time(*below)) + way * std::log(time(*above)));
}

}  // namespace

std::optional<double> measured_seconds(std::span<const MeasuredCollective> measured,
                                       MeasuredOperation operation, const GpuGroup& group, double bytes) {
  const MeasuredCollective* like = nearest_group(measured, operation, group);
  if (like == nullptr) return std::nullopt;
  const double share = sent_share(operation, group.gpus) / sent_share(operation, like->group.gpus);
  return interpolated_time(like->times, bytes) * share * 1e-9;
}

}  // namespace ppsim::workload
