#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "flows.hpp"
#include "ppsim/core/execution/timed_trace.hpp"
#include "ppsim/simulator/engine/simulate.hpp"

namespace ppsim::simulator {

/// The copies of an activity that are one: those of the tensor-parallel group, those of all pipelines.
enum class Joint : std::uint8_t { none, tensor, data };

/// Something that takes its time once all that it waits for is over.
struct Activity {
  static constexpr std::uint32_t kNoRoute = UINT32_MAX;

  std::uint32_t first_successor = 0;
  std::uint32_t duration = 0;      ///< into ActivityGraph::durations; kJoin: none at all
  std::uint32_t route = kNoRoute;  ///< of its first copy; those of the others follow
  std::uint16_t waits = 0;
  Joint joint = Joint::none;
};
static_assert(sizeof(Activity) == 16);

/// The activities of one GPU of every rank of a pipeline: all others do the same. Activity 0 is the step's
/// start, and one past the end closes the list.
struct ActivityGraph {
  std::vector<Activity> activities;
  std::vector<std::uint32_t> successors;
  std::vector<Nanoseconds> durations;

  [[nodiscard]] std::size_t size() const { return activities.size() - 1; }
};

/// Collects activities and what they wait for.
class ActivityGraphBuilder {
 public:
  ActivityGraphBuilder() { graph_.activities.emplace_back(); }

  std::uint32_t add(const Activity& activity) {
    graph_.activities.push_back(activity);
    return static_cast<std::uint32_t>(graph_.activities.size() - 1);
  }
  void wait(std::uint32_t waiter, std::uint32_t before) { edges_.emplace_back(before, waiter); }
  /// The number of a duration.
  std::uint32_t duration(Nanoseconds duration) {
    graph_.durations.push_back(duration);
    return static_cast<std::uint32_t>(graph_.durations.size() - 1);
  }
  [[nodiscard]] ActivityGraph build() &&;

 private:
  ActivityGraph graph_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges_;
};

/// A compiled Program as activities of the same numbers. `routes`: of each of its messages, then of
/// its matches.
[[nodiscard]] ActivityGraph activities_of(const CompiledProgram& program, const BoundCosts& costs,
                                          const Routes& routes);

/// How many GPUs do the same: `tensor` in each of `data` pipelines. Copy d * tensor + t is GPU t of each rank
/// of pipeline d.
struct CopyGrid {
  std::uint32_t tensor = 1;
  std::uint32_t data = 1;
  [[nodiscard]] std::uint32_t size() const { return tensor * data; }
};

/// How many copies of an activity are one, and the first of those that a copy's is one with.
[[nodiscard]] inline std::uint32_t members(const CopyGrid& copies, Joint joint) {
  if (joint == Joint::none) return 1;
  return joint == Joint::tensor ? copies.tensor : copies.data;
}
[[nodiscard]] inline std::uint32_t first_member(const CopyGrid& copies, Joint joint, std::uint32_t copy) {
  if (joint == Joint::none) return copy;
  const std::uint32_t place = copy % copies.tensor;
  return joint == Joint::tensor ? copy - place : place;
}

/// When each activity ends, copy by copy. The end of a joint activity is at its first copy.
[[nodiscard]] std::vector<Instant> run_activities(const ActivityGraph& graph, const CopyGrid& copies,
                                                  Flows& flows);

}  // namespace ppsim::simulator
