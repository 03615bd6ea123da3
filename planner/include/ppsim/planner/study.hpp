#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ppsim/planner/plan.hpp"

namespace ppsim::planner {

/// A configuration by the names of its parts, such as `tp` or `schedule`, in the order of the names.
struct StudyPoint {
  std::map<std::string, std::string> values;
  std::map<std::string, std::string> files = {};  ///< hashes of the content of files that values name
  /// A hash of the values, of these files and of the version of ppsim, by which a store finds a result.
  [[nodiscard]] std::string key() const;
  friend bool operator==(const StudyPoint&, const StudyPoint&) = default;
};

/// All points of a study, each once, in the order of its file.
struct Study {
  std::vector<StudyPoint> points;
};

/// A study as a file describes it: the schema "study" of docs/study.md.
/// Errors: bad_file with the place: a file that is no study, an unknown name, an invalid constraint, more
/// than a million points, a file that a point names and that cannot be read.
[[nodiscard]] Expected<Study> read_study(std::string_view text, const std::string& file);

/// impossible: something does not divide, or the schedule refuses it.
enum class PointStatus : std::uint8_t { fits, does_not_fit, impossible };
[[nodiscard]] std::string_view status_name(PointStatus status);

/// The state of a point.
struct PointResult {
  PointStatus status = PointStatus::impossible;
  std::string reason;          ///< why it is impossible
  std::optional<PlanRow> row;  ///< where it fits
  /// If it does not fit: a lower bound of its memory in any timing, or the peak of its simulated run.
  Bytes min_bytes = 0;
  double gpu_hours = 0;  ///< of a step
};

/// Evaluates points one after another. Parts that several points share are computed once.
class PointEvaluator {
 public:
  PointEvaluator();
  ~PointEvaluator();
  PointEvaluator(PointEvaluator&&) noexcept;
  PointEvaluator& operator=(PointEvaluator&&) noexcept;

  [[nodiscard]] PointResult operator()(const StudyPoint& point);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A result as it is stored.
struct StoredResult {
  std::string point;  ///< its values as JSON, which tell the same point of another version of ppsim
  std::string status;
  std::string reason;
  std::map<std::string, double> figures;  ///< step_ns, peak_bytes, ... as far as they are known
  std::string layout;
  /// 0 where it is not known.
  [[nodiscard]] double figure(const std::string& name) const {
    const auto found = figures.find(name);
    return found == figures.end() ? 0 : found->second;
  }
  friend bool operator==(const StoredResult&, const StoredResult&) = default;
};

[[nodiscard]] StoredResult stored_result(const StudyPoint& point, const PointResult& result);

/// The answer to a process that wants to evaluate a point.
enum class Claim : std::uint8_t { taken, done, of_another };

/// Results in an SQLite file, which several processes of a machine may write at once. A result is in it once,
/// and stays after a crash.
class StudyStore {
 public:
  /// Errors: io naming the file and what SQLite says; bad_file for a file of something else.
  [[nodiscard]] static Expected<StudyStore> open(const std::string& file, bool must_exist = false);
  ~StudyStore();
  StudyStore(StudyStore&&) noexcept;
  StudyStore& operator=(StudyStore&&) noexcept;

  /// Adds results by the keys of their points, and ends the claims on these. Errors: io.
  [[nodiscard]] Expected<void> add(const std::map<std::string, StoredResult>& results);
  /// Asks for points to evaluate. A claim ends with the result, with its process, and after a few seconds in
  /// which its process was not heard of. Returns: an answer for each point. Errors: io.
  [[nodiscard]] Expected<std::vector<Claim>> claim(std::span<const StudyPoint* const> points);
  /// Says that this process is alive. Errors: io.
  [[nodiscard]] Expected<void> renew_claims();
  /// The stored results, by key of the point. Errors: io.
  [[nodiscard]] Expected<std::map<std::string, StoredResult>> results() const;
  /// Adds the results of another store. Errors: as of open.
  [[nodiscard]] Expected<void> merge(const std::string& file);

 private:
  struct State;
  explicit StudyStore(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// The options of running a study.
struct StudyRun {
  int jobs = 1;
  int shard = 0;  ///< of `shards`, which take turns
  int shards = 1;
  std::function<void(std::size_t done, std::size_t all)> progress = {};
  std::function<bool()> stopped = {};
};

/// Evaluates the points that the store lacks, together with all other processes that do so: each point is
/// evaluated by one, and by another where that one dies. Returns how many were evaluated here.
/// Requires: jobs >= 1, 0 <= shard < shards. Errors: io of the store, and where it was stopped.
[[nodiscard]] Expected<std::size_t> run_study(const Study& study, StudyStore& store, const StudyRun& run);

/// A process among several that have no store in common, and how all tell all: in the order of their numbers,
/// and all equally often.
struct StudyGroup {
  int process = 0;
  int processes = 1;
  std::function<Expected<std::vector<std::string>>(const std::string&)> exchange = {};
};

/// The same on processes of several machines: in rounds of a second each evaluates a share of the pending
/// points and sends the results to the others; process 0 stores them. Returns: the number of points evaluated
/// here.
/// Requires: as above, and a store in process 0 alone. Errors: io of the store and of the exchange.
[[nodiscard]] Expected<std::size_t> run_study_in_rounds(const Study& study, StudyStore* store,
                                                        const StudyRun& run, const StudyGroup& group);

/// The columns of an export: names of values, then of results.
[[nodiscard]] std::string study_csv(const Study& study, const std::map<std::string, StoredResult>& results);
[[nodiscard]] std::string study_jsonl(const Study& study, const std::map<std::string, StoredResult>& results);

/// A point that is worse than it was.
struct StudyRegression {
  StudyPoint point;
  std::string what;
};
struct StudyComparison {
  /// Points whose step or peak is above that of the baseline by more than the tolerance, or that fitted.
  std::vector<StudyRegression> regressions;
  std::size_t compared = 0;  ///< points that are done in both
};
[[nodiscard]] StudyComparison compare_studies(const Study& study,
                                              const std::map<std::string, StoredResult>& results,
                                              const std::map<std::string, StoredResult>& baseline,
                                              double tolerance);

}  // namespace ppsim::planner

namespace ppsim {
using planner::PointEvaluator;
using planner::PointResult;
using planner::PointStatus;
using planner::read_study;
using planner::run_study;
using planner::run_study_in_rounds;
using planner::Study;
using planner::StudyGroup;
using planner::StudyPoint;
using planner::StudyRun;
using planner::StudyStore;
}  // namespace ppsim
