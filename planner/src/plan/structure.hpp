#pragma once

#include <compare>
#include <list>
#include <map>
#include <memory>
#include <vector>

#include "plan/space.hpp"
#include "ppsim/core/ir/schedule.hpp"
#include "ppsim/simulator/engine/simulate.hpp"

namespace ppsim::planner {

/// The activations of one stage of a rank while a cell of its row runs, in numbers of microbatches.
struct StageLoad {
  int for_input = 0;    ///< saved activations that I frees
  int for_weight = 0;   ///< those that W frees
  int begun_input = 0;  ///< of these, microbatches whose I or B has begun
  int begun_weight = 0;
  int inputs = 0;  ///< of the stage, until its backward is done
  bool gradients = false;
  friend auto operator<=>(const StageLoad&, const StageLoad&) = default;
};

/// A cell of a row, and all that its rank holds for certain while it runs.
struct RowMoment {
  std::vector<StageLoad> stages;  ///< in the order of Pipeline::stages_of
  OpKind kind = OpKind::forward;  ///< of the first action of the cell
  StageId running;
  friend auto operator<=>(const RowMoment&, const RowMoment&) = default;
};

/// The live activations of a schedule on each rank: the different moments of its row.
struct RowMoments {
  IdVector<RankId, std::vector<RowMoment>> rows;
  bool lends = false;  ///< activations wait on other ranks
};

struct StructureKey {
  std::string_view schedule;
  int chunks = 0;  ///< 0: its own
  int ranks = 1;
  int microbatches = 1;
  bool recomputes = false;  ///< in full
  friend auto operator<=>(const StructureKey&, const StructureKey&) = default;
};

/// Whether the order of the schedule follows costs.
[[nodiscard]] bool follows_costs(const StructureKey& key);

/// A cache of schedules: those used last, within a bound on memory.
template <class T>
class KeptBySchedule {
 public:
  [[nodiscard]] std::shared_ptr<const T> find(const StructureKey& key) {
    const auto found = kept_.find(key);
    if (found == kept_.end()) return nullptr;
    used_.splice(used_.begin(), used_, found->second.used);
    return found->second.value;
  }
  std::shared_ptr<const T> keep(const StructureKey& key, T value, std::size_t weight) {
    used_.push_front(key);
    std::shared_ptr<const T> shared = std::make_shared<const T>(std::move(value));
    kept_[key] = {shared, weight, used_.begin()};
    weight_ += weight;
    while (weight_ > kMaxWeight && used_.size() > 1) {
      const auto oldest = kept_.find(used_.back());
      weight_ -= oldest->second.weight;
      kept_.erase(oldest);
      used_.pop_back();
    }
    return shared;
  }

 private:
  static constexpr std::size_t kMaxWeight = std::size_t{1} << 25U;  ///< some 500 MB
  struct Kept {
    std::shared_ptr<const T> value;
    std::size_t weight = 0;
    std::list<StructureKey>::iterator used;
  };
  std::map<StructureKey, Kept> kept_;
  std::list<StructureKey> used_;  ///< latest first
  std::size_t weight_ = 0;
};

/// The structure that the plans of one schedule share, whatever its stages cost. Of schedules whose order
/// follows costs nothing is kept.
class Structures {
 public:
  /// Errors: those of generate.
  [[nodiscard]] Expected<std::shared_ptr<const RowMoments>> moments(StructureKey key, const CostTable& costs);
  /// Compiled for independent queues.
  /// Errors: those of generate and lower.
  [[nodiscard]] Expected<std::shared_ptr<const CompiledProgram>> compiled(const StructureKey& key,
                                                                          const CostTable& costs);

 private:
  KeptBySchedule<RowMoments> moments_;
  KeptBySchedule<CompiledProgram> compiled_;
};

}  // namespace ppsim::planner
