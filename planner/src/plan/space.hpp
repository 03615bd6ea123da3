#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ppsim/planner/costs/workload_words.hpp"
#include "ppsim/planner/plan.hpp"
#include "ppsim/schedules/registry.hpp"

namespace ppsim::planner {

/// A parallelism, and what goes with it, but for schedule, layout and recompute.
struct GpuParallelism {
  int nodes = 1;
  Parallelism parallelism;
};

/// A schedule of the registry and its chunks.
struct ScheduleChoice {
  const ScheduleInfo* info = nullptr;
  std::optional<int> chunks;
};

/// The parallelisms of a model that are possible, and why others are not.
struct Parallelisms {
  std::vector<GpuParallelism> possible;
  std::vector<Error> refused;     ///< the first of each message
  std::optional<Error> unfilled;  ///< the first of fixed values that fill other GPUs than there are

  void refuse(Error error);
  void refuse(const std::string& message, const std::string& found, const std::string& expected);
  /// Why there is none. Requires: none is possible.
  [[nodiscard]] tl::unexpected<Error> none(std::string_view message) const;
};

/// The values of each dimension that a request leaves.
class Space {
 public:
  /// Keeps a reference to the request.
  /// Errors: bad_argument naming the key or value of `fixed` that is none.
  [[nodiscard]] static Expected<Space> make(const PlanRequest& request);

  /// All that check_parallelism accepts, in a fixed order.
  [[nodiscard]] Parallelisms parallelisms() const;
  /// The fixed numbers that none of these parallelisms has for which there is a schedule, such as "tp=64".
  [[nodiscard]] std::vector<std::string> unused(const std::vector<GpuParallelism>& parallelisms) const;
  /// `none` comes first. Which of the others takes longer is a matter of schedules and calibrations.
  [[nodiscard]] const std::vector<RecomputeWords>& recomputes() const { return recomputes_; }
  [[nodiscard]] bool starts_with_none() const { return recomputes_.front().stages == StageRecompute(); }
  [[nodiscard]] const std::vector<LayoutRule>& layouts() const { return layouts_; }
  /// Of a pipeline of so many ranks. One rank has one schedule.
  [[nodiscard]] std::vector<ScheduleChoice> schedules(int ranks) const;
  [[nodiscard]] ClusterDescription cluster(int nodes) const;

 private:
  explicit Space(const PlanRequest& request) : request_(&request) {}
  Expected<void> read();
  Expected<void> read_counts();
  Expected<void> read_words();
  Expected<void> read_recomputes();
  [[nodiscard]] std::vector<std::string> words(const std::string& key) const;
  [[nodiscard]] bool allows(const std::string& key, int value) const;
  [[nodiscard]] std::vector<int> values(const std::string& key, const std::vector<int>& searched) const;
  [[nodiscard]] bool is_asked(const Parallelism& groups) const;
  void add_parallelisms(int nodes, Parallelisms& parallelisms) const;
  void add_with_pipeline(const ClusterDescription& cluster, Parallelism groups,
                         Parallelisms& parallelisms) const;
  void add_with_groups(const ClusterDescription& cluster, const Parallelism& groups,
                       Parallelisms& parallelisms) const;
  void add_chunks(const ScheduleInfo& info, int ranks, std::vector<ScheduleChoice>& choices) const;

  const PlanRequest* request_;
  std::vector<int> nodes_;
  std::map<std::string, std::vector<int>> counts_;
  std::vector<RecomputeWords> recomputes_;
  std::vector<LayoutRule> layouts_ = {LayoutRule::even, LayoutRule::balanced};
  std::vector<DataType> types_ = {DataType::bf16};
  std::vector<bool> sharded_ = {false};
  std::vector<const ScheduleInfo*> schedules_;
  bool schedules_given_ = false;
};

/// "even" and "auto".
[[nodiscard]] std::string_view layout_rule_name(LayoutRule rule);

}  // namespace ppsim::planner
