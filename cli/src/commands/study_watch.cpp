#include "study_watch.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <iostream>
#include <mutex>
#include <set>

namespace ppsim::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLookEvery{500};
constexpr int kShareOfLooking = 10;  // reading a large store takes its time: a tenth of all at most

bool on_terminal() { return ::isatty(STDERR_FILENO) == 1; }

/// A line that is longer would not be overwritten.
std::size_t columns_of_stderr() {
  constexpr std::size_t kUsual = 80;
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

bool has_backward(const StudyPoint& point) {
  const auto name = point.values.find("schedule");
  if (name == point.values.end()) return true;
  const auto info = find_schedule(name->second);
  return !info || !(*info)->forward_only;
}

/// One that computes no backward is the best only among its like.
void keep_better(const BestPoint& one, std::optional<BestPoint>& best) {
  const auto rank = [](const BestPoint& of) {
    return std::pair(has_backward(*of.point), of.tokens_per_second);
  };
  if (!best || rank(one) > rank(*best)) best = one;
}

/// Waits; true: to stop.
bool stops_within(const std::stop_token& stop, Clock::duration pause) {
  std::mutex mutex;
  std::condition_variable_any ends;
  std::unique_lock lock(mutex);
  ends.wait_for(lock, stop, pause, [] { return false; });
  return stop.stop_requested();
}

}  // namespace

StudyCounts counts_of(const Study& study, const std::map<std::string, planner::StoredResult>& results) {
  StudyCounts counts;
  for (const StudyPoint& point : study.points) {
    const auto found = results.find(point.key());
    if (found == results.end()) {
      ++counts.missing;
    } else if (found->second.status == "fits") {
      ++counts.fits;
      keep_better({&point, found->second.figure("step_ns"), found->second.figure("tokens_per_second")},
                  counts.best);
    } else if (found->second.status == "does_not_fit") {
      ++counts.does_not_fit;
    } else {
      ++counts.impossible;
      ++counts.reasons[found->second.reason];
    }
  }
  return counts;
}

std::string words_of(const Study& study, const StudyPoint& point) {
  std::map<std::string, std::set<std::string>> values;
  for (const StudyPoint& one : study.points) {
    for (const auto& [name, value] : one.values) values[name].insert(value);
  }
  std::string text;
  for (const auto& [name, value] : point.values) {
    if (values[name].size() > 1) text += (text.empty() ? "" : ", ") + name + " " + value;
  }
  return text;
}

std::string words_of(const Study& study, const BestPoint& best) {
  const std::string values = words_of(study, *best.point);
  return std::to_string(static_cast<long long>(best.tokens_per_second)) + " tokens/s, step " +
         time_text(static_cast<Nanoseconds>(best.step_ns)) + (values.empty() ? "" : ": ") + values;
}

Expected<StudyWatch> StudyWatch::open(const Study& study, const std::string& store) {
  PPSIM_ASSIGN_OR_RETURN(auto opened, StudyStore::open(store, true));
  return StudyWatch(study, std::move(opened));
}

void StudyWatch::show(const StudyCounts& counts, double seconds) {
  const std::size_t all = study_->points.size();
  const std::size_t done = all - counts.missing;
  if (!done_then_) done_then_ = done;
  std::string line = std::to_string(done) + " of " + std::to_string(all) + " points, " +
                     std::to_string(counts.fits) + " fit";
  if (counts.best) line += "; best " + words_of(*study_, *counts.best);
  const bool terminal = on_terminal();
  if (!terminal && line == shown_) return;
  shown_ = line;
  if (!terminal) {
    std::cerr << line << '\n';
    return;
  }
  if (done > *done_then_ && counts.missing > 0) {
    const double each = seconds / static_cast<double>(done - *done_then_);
    line = std::to_string(static_cast<long long>(each * static_cast<double>(counts.missing)) + 1) +
           " s left: " + line;
  }
  std::cerr << "\r\033[K" << line.substr(0, columns_of_stderr() - 1) << std::flush;
}

Expected<void> StudyWatch::follow(const std::stop_token& stop) {
  const Clock::time_point start = Clock::now();
  for (bool ends = false; !ends;) {
    // Asked before the look: what was stored until then is shown.
    ends = stop.stop_requested();
    const Clock::time_point began = Clock::now();
    PPSIM_ASSIGN_OR_RETURN(const auto results, store_.results());
    const StudyCounts counts = counts_of(*study_, results);
    show(counts, std::chrono::duration<double>(began - start).count());
    if (counts.missing == 0) break;
    const Clock::duration looked = Clock::now() - began;
    if (!ends)
      static_cast<void>(stops_within(stop, std::max<Clock::duration>(kLookEvery, kShareOfLooking * looked)));
  }
  if (on_terminal()) std::cerr << "\r\033[K" << std::flush;
  return {};
}

}  // namespace ppsim::cli
