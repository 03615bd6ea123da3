#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <thread>

#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/ir/overflow.hpp"
#include "ppsim/planner/study.hpp"

namespace ppsim::planner {
namespace {

constexpr std::chrono::milliseconds kWriteEvery{200};

/// Points that have a schedule in common one after another: what they share is made once.
std::vector<const StudyPoint*> missing_points(const Study& study, const StudyRun& run,
                                              const std::map<std::string, StoredResult>& known) {
  std::vector<const StudyPoint*> missing;
  for (std::size_t i = 0; i < study.points.size(); ++i) {
    if (static_cast<int>(i % static_cast<std::size_t>(run.shards)) != run.shard) continue;
    if (!known.contains(study.points[i].key())) missing.push_back(&study.points[i]);
  }
  const auto schedule_of = [](const StudyPoint* point) {
    std::vector<std::string> values;
    for (const char* name : {"schedule", "pp", "chunks", "dp", "microbatch_size"}) {
      const auto found = point->values.find(name);
      values.push_back(found == point->values.end() ? "" : found->second);
    }
    return values;
  };
  std::ranges::stable_sort(missing, {}, schedule_of);
  return missing;
}

/// The state that the threads of a run share.
class PointQueue {
 public:
  PointQueue(std::vector<const StudyPoint*> points, const StudyRun& run)
      : points_(std::move(points)), run_(run) {}

  [[nodiscard]] std::size_t size() const { return points_.size(); }

  /// Takes points until none is left.
  void work() {
    PointEvaluator evaluate;
    for (std::size_t i = next_++; i < points_.size() && !stops_; i = next_++) {
      if (run_.stopped && run_.stopped()) stops_ = true;
      PointResult result = evaluated(evaluate, *points_[i]);
      const std::lock_guard lock(mutex_);
      done_.emplace_back(*points_[i], std::move(result));
    }
    const std::lock_guard lock(mutex_);
    ++ended_;
    changed_.notify_one();
  }

  /// Stores what the threads make, again and again. Returns how many.
  [[nodiscard]] Expected<std::size_t> store(StudyStore& store) {
    std::size_t stored = 0;
    for (bool ends = false; !ends;) {
      std::vector<std::pair<StudyPoint, PointResult>> results;
      {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, kWriteEvery, [&] { return ended_ == run_.jobs; });
        ends = ended_ == run_.jobs;
        results.swap(done_);
      }
      if (!results.empty()) {
        if (auto good = store.add(results); !good) {
          stops_ = true;
          return tl::unexpected(good.error());
        }
      }
      stored += results.size();
      if (run_.progress) run_.progress(stored, points_.size());
    }
    if (stops_) return make_error(ErrorCode::io, "stopped before all points were evaluated");
    return stored;
  }

 private:
  static PointResult evaluated(PointEvaluator& evaluate, const StudyPoint& point) {
    try {
      return evaluate(point);
    } catch (const Overflow& sum) {  // must not leave its thread
      return {.status = PointStatus::impossible, .reason = sum.what()};
    }
  }

  std::vector<const StudyPoint*> points_;
  const StudyRun& run_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<bool> stops_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<StudyPoint, PointResult>> done_;
  int ended_ = 0;
};

}  // namespace

Expected<std::size_t> run_study(const Study& study, StudyStore& store, const StudyRun& run) {
  PPSIM_CHECK(run.jobs >= 1 && run.shard >= 0 && run.shard < run.shards, "see Requires");
  PPSIM_ASSIGN_OR_RETURN(const auto known, store.results());
  PointQueue queue(missing_points(study, run, known), run);
  std::vector<std::jthread> threads;
  for (int t = 0; t < run.jobs; ++t) threads.emplace_back([&] { queue.work(); });
  return queue.store(store);
}

}  // namespace ppsim::planner
