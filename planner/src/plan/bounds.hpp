#pragma once

#include <array>
#include <memory>
#include <vector>

#include "plan/placement.hpp"
#include "plan/structure.hpp"
#include "ppsim/core/ir/tables.hpp"
#include "ppsim/workload/analytic.hpp"

namespace ppsim::planner {

/// Lower bounds on every plan of a group. Units: nanoseconds, bytes of the fullest rank.
struct LowerBound {
  Nanoseconds step = 0;
  Bytes peak = 0;
};

/// Whether F beside B can take less than both: an exchange with experts is hidden, or pairs were measured.
[[nodiscard]] bool pairs_save(const Workload& work);

/// The same work, where the factors of a calibration are those by which each part of F, I and W takes no
/// longer than in any kind of action that may have it. `overlaps`: pairs of F and B among them.
[[nodiscard]] Workload with_min_factors(Workload work, bool overlaps);

/// Costs and sizes of a placement, looked up once.
class PlacedCosts {
 public:
  PlacedCosts(const Workload& work, std::shared_ptr<const Placement> placement, AnalyticCosts costs);

  [[nodiscard]] const Placement& placement() const { return *placement_; }
  /// Gives back what tables take: of_form and of_any_placement have been asked.
  void forget_tables() { costs_.tables = {}; }

  /// Of every schedule of this placement and form. Each rank begins when the first microbatch can have come
  /// to it, computes all that is its own, and then the last gradient goes back to the first stage; where W
  /// may be last there is no way back.
  [[nodiscard]] LowerBound of_form(const RowForm& form, int microbatches) const;
  /// Of one schedule: what the order of its rows keeps alive, whatever the timing.
  [[nodiscard]] Bytes peak_of(const RowMoments& moments) const;
  /// The step, where the compute queues end at these times.
  [[nodiscard]] Nanoseconds step_of(const StepTimes& times) const;

  /// Of every placement of this model on as many ranks: the work of a microbatch is the same however it is
  /// cut, and the busiest rank has no less than the mean.
  /// Requires: a chain with a stage on each rank, and costs of with_min_factors.
  [[nodiscard]] LowerBound of_any_placement(int microbatches, bool overlaps) const;

 private:
  struct StageCost {
    Nanoseconds plain_forward = 0, plain_backward = 0;
    Nanoseconds plain = 0;                  ///< both
    Nanoseconds forward = 0, backward = 0;  ///< least that a pass takes, beside another one or not
    Nanoseconds both = 0;                   ///< least that both together add to a rank
    bool recomputes = false;                ///< in full
    Bytes for_input = 0, for_weight = 0, input = 0, gradients = 0;
    std::array<Bytes, 4> workspace = {};  ///< of F, B, I and W
  };
  struct RankSize {
    Bytes kept = 0;       ///< parameters and optimizer state
    Bytes gradients = 0;  ///< of all its blocks
    Bytes saved = 0;      ///< activations of one microbatch that are there together
  };
  struct Way {
    bool known = false;
    Nanoseconds head = 0;  ///< of the first microbatch to a stage
    Nanoseconds tail = 0;  ///< of the last gradient from it
  };
  void read_stage(StageId stage, bool recomputes);
  void read_pairs();
  void read_sizes();
  [[nodiscard]] std::vector<Way> ways(const RowForm& form) const;
  [[nodiscard]] Nanoseconds transfer(StageId from, StageId to, OpKind kind) const;
  [[nodiscard]] Bytes peak_of_form(const RowForm& form) const;
  [[nodiscard]] Bytes bytes_at(const RowMoment& moment, RankId rank) const;

  std::shared_ptr<const Placement> placement_;
  AnalyticCosts costs_;
  bool whole_step_ = true;
  bool has_experts_ = false;
  Nanoseconds rounding_ = 0;
  std::vector<StageCost> stages_;
  std::vector<RankSize> ranks_;
};

}  // namespace ppsim::planner
