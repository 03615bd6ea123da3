// A study on processes that share no store: SQLite's log is for those of one machine.

#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "ppsim/core/ir/check.hpp"
#include "study/points.hpp"

namespace ppsim::planner {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;
using Results = std::map<std::string, StoredResult>;

/// The time after which all processes exchange their results: short for a study, long for a message.
constexpr std::chrono::milliseconds kRound{1000};

std::string told(const Results& results) {
  json all = json::array();
  for (const auto& [key, result] : results)
    all.push_back({key, result.point, result.status, result.reason, result.layout, result.figures});
  return all.dump();
}

/// Reads the results of another process. Numbers are written with all their digits.
Expected<void> hear(const std::string& text, Results& results) {
  const json all = json::parse(text, nullptr, false);
  if (!all.is_array()) return make_error(ErrorCode::io, "a process of the study has sent something else");
  for (const json& one : all) {
    results[one.at(0)] = {.point = one.at(1),
                          .status = one.at(2),
                          .reason = one.at(3),
                          .figures = one.at(5).get<std::map<std::string, double>>(),
                          .layout = one.at(4)};
  }
  return {};
}

/// Evaluates points for a round, by several threads.
class Rounds {
 public:
  explicit Rounds(int jobs) : evaluators_(as_size(jobs)) {}

  /// Every thread evaluates at least one point.
  [[nodiscard]] Results evaluate(const std::vector<const StudyPoint*>& points) {
    const Clock::time_point end = Clock::now() + kRound;
    std::atomic<std::size_t> next = 0;
    std::vector<Results> parts(evaluators_.size());
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < evaluators_.size(); ++t) {
      threads.emplace_back([&, t] {
        do {
          const std::size_t i = next++;
          if (i >= points.size()) return;
          parts[t].emplace(points[i]->key(),
                           stored_result(*points[i], evaluated_point(evaluators_[t], *points[i])));
        } while (Clock::now() < end);
      });
    }
    threads.clear();
    Results all;
    for (Results& part : parts) all.merge(part);
    return all;
  }

 private:
  std::vector<PointEvaluator> evaluators_;
};

std::string keys_of(StudyStore* store, Expected<Results>& known) {
  if (store == nullptr) return "[]";
  known = store->results();
  json keys = json::array();
  if (known) {
    for (const auto& [key, result] : *known) keys.push_back(key);
  }
  return keys.dump();
}

/// The keys of the points in the store of process 0.
Expected<std::set<std::string>> known_keys(StudyStore* store, const StudyGroup& group) {
  Expected<Results> known;
  const std::string own = keys_of(store, known);
  PPSIM_RETURN_IF_ERROR(known);
  PPSIM_ASSIGN_OR_RETURN(const auto texts, group.exchange(own));
  const json keys = json::parse(texts.front(), nullptr, false);
  if (!keys.is_array()) return make_error(ErrorCode::io, "a process of the study has sent something else");
  return keys.get<std::set<std::string>>();
}

std::vector<const StudyPoint*> share_of(const std::vector<const StudyPoint*>& pending,
                                        const StudyGroup& group) {
  std::vector<const StudyPoint*> share;
  for (std::size_t i = as_size(group.process); i < pending.size(); i += as_size(group.processes))
    share.push_back(pending[i]);
  return share;
}

}  // namespace

Expected<std::size_t> run_study_in_rounds(const Study& study, StudyStore* store, const StudyRun& run,
                                          const StudyGroup& group) {
  PPSIM_CHECK(run.jobs >= 1 && (store != nullptr) == (group.process == 0), "see Requires");
  PPSIM_ASSIGN_OR_RETURN(const auto known, known_keys(store, group));
  std::vector<const StudyPoint*> pending =
      missing_points(study, run, [&](const std::string& key) { return known.contains(key); });
  const std::size_t all = pending.size();
  std::size_t evaluated = 0;
  Rounds rounds(run.jobs);
  while (!pending.empty()) {
    const Results own = rounds.evaluate(share_of(pending, group));
    evaluated += own.size();
    PPSIM_ASSIGN_OR_RETURN(const auto texts, group.exchange(told(own)));
    Results results;
    for (const std::string& text : texts) PPSIM_RETURN_IF_ERROR(hear(text, results));
    if (store != nullptr) PPSIM_RETURN_IF_ERROR(store->add(results));
    std::erase_if(pending, [&](const StudyPoint* point) { return results.contains(point->key()); });
    if (run.progress) run.progress(all - pending.size(), all);
  }
  return evaluated;
}

}  // namespace ppsim::planner
