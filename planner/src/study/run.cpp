#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "ppsim/core/ir/check.hpp"
#include "study/points.hpp"

namespace ppsim::planner {
namespace {

constexpr std::chrono::milliseconds kWriteEvery{200};

/// The points of a run: claimed in the store, evaluated by threads, stored.
class PointQueue {
 public:
  PointQueue(std::vector<const StudyPoint*> points, const StudyRun& run, StudyStore& store)
      : pending_(points.begin(), points.end()), all_(points.size()), run_(run), store_(store) {}

  /// Evaluates points until there are no more.
  void work() {
    PointEvaluator evaluate;
    while (const StudyPoint* point = take()) {
      if (run_.stopped && run_.stopped()) stops_ = true;
      StoredResult result = stored_result(*point, evaluated_point(evaluate, *point));
      const std::lock_guard lock(mutex_);
      results_.emplace(point->key(), std::move(result));
      changed_.notify_all();
    }
  }

  /// Hands out points and stores results until there is one for each. Returns how many were stored here.
  [[nodiscard]] Expected<std::size_t> serve() {
    std::size_t stored = 0;
    while (settled_ < all_) {
      PPSIM_RETURN_IF_ERROR(claim());
      auto results = results_so_far();
      PPSIM_RETURN_IF_ERROR(results.empty() ? store_.renew_claims() : store_.add(results));
      stored += results.size();
      settled_ += results.size();
      if (run_.progress) run_.progress(settled_, all_);
      if (run_.stopped && run_.stopped()) stops_ = true;  // all points may be of others
      if (stops_) return make_error(ErrorCode::io, "stopped before all points were evaluated");
    }
    return stored;
  }

  /// Lets the threads end.
  void end() {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }

 private:
  /// The next point; null at the end.
  const StudyPoint* take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ends_ || !ready_.empty(); });
    if (ends_ || stops_) return nullptr;
    const StudyPoint* point = ready_.front();
    ready_.pop_front();
    return point;
  }

  /// Keeps the threads supplied, in the end with points of processes that have died.
  [[nodiscard]] Expected<void> claim() {
    while (few_ready() && !pending_.empty()) PPSIM_RETURN_IF_ERROR(claim_some(pending_));
    if (few_ready() && !of_others_.empty()) PPSIM_RETURN_IF_ERROR(claim_some(of_others_));
    return {};
  }

  /// Asks for points at the front of a list: fewer near its end, so that all processes end together.
  [[nodiscard]] Expected<void> claim_some(std::deque<const StudyPoint*>& points) {
    const auto jobs = as_size(run_.jobs);
    const std::size_t count = std::min(points.size(), std::clamp(points.size() / 8, jobs, kAtOnce * jobs));
    const auto end = points.begin() + static_cast<std::ptrdiff_t>(count);
    const std::vector<const StudyPoint*> asked(points.begin(), end);
    points.erase(points.begin(), end);
    PPSIM_ASSIGN_OR_RETURN(const auto answers, store_.claim(asked));
    sort_by_answer(asked, answers);
    return {};
  }

  void sort_by_answer(const std::vector<const StudyPoint*>& asked, const std::vector<Claim>& answers) {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < asked.size(); ++i) {
      if (answers[i] == Claim::taken) ready_.push_back(asked[i]);
      if (answers[i] == Claim::of_another) of_others_.push_back(asked[i]);
      if (answers[i] == Claim::done) ++settled_;
    }
    changed_.notify_all();
  }

  [[nodiscard]] bool few_ready() {
    const std::lock_guard lock(mutex_);
    return ready_.size() < as_size(run_.jobs);
  }

  /// Waits until there is something to do, or for a while.
  [[nodiscard]] std::map<std::string, StoredResult> results_so_far() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kWriteEvery, [&] {
      const bool hungry = ready_.size() < as_size(run_.jobs);
      return stops_ || settled_ + results_.size() == all_ || (hungry && !pending_.empty());
    });
    return std::exchange(results_, {});
  }

  static constexpr std::size_t kAtOnce = 64;  ///< points per thread in a claim

  std::deque<const StudyPoint*> pending_;    ///< not asked for yet
  std::deque<const StudyPoint*> of_others_;  ///< which other processes evaluate
  const std::size_t all_;
  std::size_t settled_ = 0;  ///< points whose result is stored
  const StudyRun& run_;
  StudyStore& store_;
  std::atomic<bool> stops_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<const StudyPoint*> ready_;          ///< claimed here
  std::map<std::string, StoredResult> results_;  ///< not stored yet
  bool ends_ = false;
};

}  // namespace

Expected<std::size_t> run_study(const Study& study, StudyStore& store, const StudyRun& run) {
  PPSIM_CHECK(run.jobs >= 1 && run.shard >= 0 && run.shard < run.shards, "see Requires");
  PPSIM_ASSIGN_OR_RETURN(const auto known, store.results());
  const auto is_known = [&](const std::string& key) { return known.contains(key); };
  PointQueue queue(missing_points(study, run, is_known), run, store);
  std::vector<std::jthread> threads;
  // Ends them before they are joined, whatever is thrown: the system may refuse a thread.
  struct AtEnd {
    PointQueue& queue;
    ~AtEnd() { queue.end(); }
  } const at_end{queue};
  for (int t = 0; t < run.jobs; ++t) threads.emplace_back([&] { queue.work(); });
  return queue.serve();
}

}  // namespace ppsim::planner
