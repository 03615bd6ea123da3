#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "command.hpp"
#include "ppsim/planner/study.hpp"

namespace ppsim::cli {

/// The fastest point of a study among those that fit: most tokens a second, whatever their batches.
struct BestPoint {
  const StudyPoint* point = nullptr;
  double step_ns = 0;
  double tokens_per_second = 0;
};

/// How far a study is, whoever has evaluated its points.
struct StudyCounts {
  std::size_t fits = 0, does_not_fit = 0, impossible = 0, missing = 0;
  std::map<std::string, std::size_t> reasons;  ///< why points are impossible
  std::optional<BestPoint> best;
};
/// Keeps pointers to points of the study.
[[nodiscard]] StudyCounts counts_of(const Study& study,
                                    const std::map<std::string, planner::StoredResult>& results);

/// A point's values of the names that not all points have alike.
[[nodiscard]] std::string words_of(const Study& study, const StudyPoint& point);
/// Its figures and values.
[[nodiscard]] std::string words_of(const Study& study, const BestPoint& best);

/// On stderr how far a study is and its best point, as they change in a store that any process writes: on a
/// terminal one line that changes, else a line for each change.
class StudyWatch {
 public:
  /// Keeps a reference to the study. Errors: as of StudyStore::open.
  [[nodiscard]] static Expected<StudyWatch> open(const Study& study, const std::string& store);

  /// Until all points are done, or the token asks to stop. Errors: io of the store.
  [[nodiscard]] Expected<void> follow(const std::stop_token& stop);

 private:
  StudyWatch(const Study& study, StudyStore store) : study_(&study), store_(std::move(store)) {}
  void show(const StudyCounts& counts, double seconds);

  const Study* study_;
  StudyStore store_;
  std::string shown_;                     ///< the last line, without the time left
  std::optional<std::size_t> done_then_;  ///< when the watch began
};

}  // namespace ppsim::cli
