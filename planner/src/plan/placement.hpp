#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "plan/space.hpp"
#include "ppsim/core/ir/schedule.hpp"

namespace ppsim::planner {

/// Where stages stand, which is all that costs and sizes depend on. Where there is one route, a pipeline of
/// one microbatch stands for those of any number.
struct Placement {
  Pipeline pipeline;
  IdVector<StageId, std::vector<StageId>> producers;  ///< of a microbatch on the stage's route
  bool any_microbatches = true;  ///< the pipeline is of one microbatch and stands for all
  std::size_t number = 0;        ///< among those of as many ranks
  bool sums_inputs = false;      ///< collectives bring inputs or gradients in the place of transfers

  /// Microbatches of a step of `microbatches` that pass a stage.
  [[nodiscard]] int count(StageId stage, int microbatches) const;
};

/// Facts on the rows of a schedule that hold for every number of microbatches.
struct RowForm {
  bool splits = false;    ///< I and W
  bool overlaps = false;  ///< F beside B
  bool lends = false;     ///< activations wait on other ranks
};

/// A schedule's placement and form.
struct PlacedSchedule {
  ScheduleChoice choice;
  std::shared_ptr<const Placement> placement;
  RowForm form;
};

/// Schedules by placement, made once and kept.
class Placements {
 public:
  /// All of these choices that the registry accepts for so many ranks and microbatches, those of the same
  /// placement next to each other.
  [[nodiscard]] const std::vector<PlacedSchedule>& of(const Space& space, int ranks, int microbatches);

  /// One of them; nothing where the registry refuses it, or it trains otherwise.
  [[nodiscard]] std::optional<PlacedSchedule> one(const ScheduleChoice& choice, int ranks, int microbatches) {
    return placed(choice, ranks, microbatches);
  }

 private:
  using Key =
      std::tuple<const ScheduleInfo*, int, int, int>;  ///< chunks, ranks; microbatches where they matter
  [[nodiscard]] std::optional<PlacedSchedule> placed(const ScheduleChoice& choice, int ranks,
                                                     int microbatches);
  [[nodiscard]] std::optional<PlacedSchedule> make(const ScheduleChoice& choice, int ranks, int microbatches);
  [[nodiscard]] std::shared_ptr<const Placement> shared(Placement placement);

  std::map<Key, std::optional<PlacedSchedule>> known_;
  std::map<int, std::vector<std::shared_ptr<const Placement>>> placements_;  ///< by ranks
  std::map<std::pair<int, int>, std::vector<PlacedSchedule>> lists_;
};

}  // namespace ppsim::planner
