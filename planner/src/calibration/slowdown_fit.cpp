#include "ppsim/planner/calibration/slowdown_fit.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/ir/padding.hpp"
#include "ppsim/core/ir/sequences.hpp"
#include "ppsim/gpu_backend/executor/measured_costs.hpp"

namespace ppsim::planner {
namespace {

/// Kinds whose actions differ less than this in how many others compute beside them are not fitted.
constexpr double kMinVariety = 0.1;
constexpr std::size_t kMinActions = 8;
/// Another number of undisturbed ranks is taken only if it reduces the deviations to this share.
constexpr double kClearlyLess = 0.9;
constexpr double kMaxSlowdown = 8;

/// One measured action that computes.
struct Observation {
  std::size_t program = 0;  ///< its index, where the load of each is looked at
  CostClass key;
  RankId rank;
  Nanoseconds begin = 0;
  Nanoseconds end = 0;
  std::vector<double> beside;  ///< share of its time in which so many others computed

  [[nodiscard]] Nanoseconds duration() const { return end - begin; }
  [[nodiscard]] double others() const {
    double mean = 0;
    for (std::size_t x = 0; x < beside.size(); ++x) mean += static_cast<double>(x) * beside[x];
    return mean;
  }
};

/// The parameters that are fitted.
struct Law {
  double slowdown = 0;
  int undisturbed = 0;

  /// The share of its time that an action would have taken alone.
  [[nodiscard]] double alone(const Observation& observed) const {
    double share = 0;
    for (std::size_t x = 0; x < observed.beside.size(); ++x) {
      const double further = std::max(0.0, static_cast<double>(x) - undisturbed);
      share += observed.beside[x] / (1 + slowdown * further);
    }
    return share;
  }
};

/// Collects the observations of one step and one device, whose number is in `device`.
class StepWalk {
 public:
  StepWalk(std::size_t number, const Program& program, const TimedTrace& trace, int ranks)
      : number_(number), program_(program), trace_(trace), ranks_(ranks) {}

  void observe(int device, std::vector<Observation>& all) {
    observed_.clear();
    const int end = std::min((device + 1) * ranks_, program_.pipeline().ranks());
    for (int r = device * ranks_; r < end; ++r) collect(RankId(r));
    share();
    std::move(observed_.begin(), observed_.end(), std::back_inserter(all));
  }

 private:
  void collect(RankId rank) {
    for (const InstructionId id : program_.ids_of(rank)) {
      const auto actions = program_.actions(id);
      if (info(actions[0].kind).resource != Resource::compute) continue;
      if (is_padding(program_.pipeline(), actions)) continue;  // a run leaves its arithmetic out
      const Span& span = trace_.spans[id];
      if (span.start.time < 0 || span.end.time <= span.start.time) continue;
      observed_.push_back({number_, cost_class_of(actions, program_.instruction(id).form), rank,
                           span.start.time, span.end.time, std::vector<double>(as_size(ranks_))});
    }
  }

  /// From one begin or end to the next, the ranks that compute are the same.
  void share() {
    std::vector<std::pair<Nanoseconds, std::size_t>> changes;
    for (std::size_t i = 0; i < observed_.size(); ++i) {
      changes.emplace_back(observed_[i].begin, i);
      changes.emplace_back(observed_[i].end, i);
    }
    std::ranges::sort(changes);
    std::vector<std::size_t> now;
    Nanoseconds since = 0;
    for (const auto& [time, i] : changes) {
      add(now, time - since);
      since = time;
      if (const auto known = std::ranges::find(now, i); known != now.end()) {
        now.erase(known);
      } else {
        now.push_back(i);
      }
    }
  }

  void add(const std::vector<std::size_t>& now, Nanoseconds time) {
    for (const std::size_t i : now) {
      Observation& one = observed_[i];
      // Clocks are read a little apart: actions of one rank may seem to overlap, and are no others.
      std::vector<RankId> others;
      for (const std::size_t other : now) {
        const RankId rank = observed_[other].rank;
        if (rank != one.rank && std::ranges::find(others, rank) == others.end()) others.push_back(rank);
      }
      one.beside[others.size()] += static_cast<double>(time) / static_cast<double>(one.duration());
    }
  }

  std::size_t number_;
  const Program& program_;
  const TimedTrace& trace_;
  int ranks_;
  std::vector<Observation> observed_;
};

/// Actions by class, and by Program where the load of each is looked at: they would take the same time alone.
using Classes = std::map<std::pair<std::size_t, CostClass>, std::vector<const Observation*>>;

double upper_median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The sum of the absolute deviations of `value_of` each action from the median of its class.
template <class ValueOf>
double deviation(const Classes& classes, ValueOf value_of) {
  double sum = 0;
  std::vector<double> values;
  for (const auto& [key, actions] : classes) {
    values.clear();
    for (const Observation* action : actions) values.push_back(value_of(*action));
    const double middle = upper_median(values);
    for (const double value : values) sum += std::abs(value - middle);
  }
  return sum;
}

std::size_t size(const Classes& classes) {
  std::size_t size = 0;
  for (const auto& [key, actions] : classes) size += actions.size();
  return size;
}

/// The spread of the logarithms of times alone, which a common factor does not change.
double deviation(const Classes& classes, const Law& law) {
  return deviation(classes, [&law](const Observation& action) {
    return std::log(static_cast<double>(action.duration()) * law.alone(action));
  });
}

bool has_variety(const Classes& classes) {
  const auto actions = static_cast<double>(size(classes));
  return size(classes) >= kMinActions && deviation(classes, [](const Observation& action) {
                                           return action.others();
                                         }) >= kMinVariety * actions;
}

/// By a grid, and golden sections between the neighbours of its best.
Law best_slowdown(const Classes& classes, int undisturbed) {
  const auto at = [&](double slowdown) { return deviation(classes, Law{slowdown, undisturbed}); };
  std::vector<double> grid = {0};
  for (double slowdown = 0.005; slowdown < kMaxSlowdown; slowdown *= 1.25) grid.push_back(slowdown);
  grid.push_back(kMaxSlowdown);
  std::size_t best = 0;
  double smallest = at(0);
  for (std::size_t i = 1; i < grid.size(); ++i) {
    const double found = at(grid[i]);
    if (found >= smallest) continue;
    smallest = found;
    best = i;
  }
  double low = grid[best == 0 ? 0 : best - 1];
  double high = grid[std::min(best + 1, grid.size() - 1)];
  constexpr double kGolden = 0.6180339887498949;
  while (high - low > 1e-7) {
    const double left = high - kGolden * (high - low);
    const double right = low + kGolden * (high - low);
    (at(left) <= at(right) ? high : low) = at(left) <= at(right) ? right : left;
  }
  const double middle = (low + high) / 2;
  return {at(middle) < smallest ? middle : grid[best], undisturbed};
}

/// Of one number of undisturbed ones, the law of each kind, and how far apart they leave the times alone.
struct Laws {
  Law common;
  std::map<OpKind, Law> own;  ///< of kinds with variety
  double deviation = 0;
};

Laws laws_of(const Classes& all, const std::map<OpKind, Classes>& by_kind, int undisturbed) {
  Laws laws{.common = has_variety(all) ? best_slowdown(all, undisturbed) : Law{0, undisturbed}};
  for (const auto& [kind, classes] : by_kind) {
    Law law = laws.common;
    if (has_variety(classes)) law = laws.own[kind] = best_slowdown(classes, undisturbed);
    laws.deviation += deviation(classes, law);
  }
  return laws;
}

Laws best_laws(const Classes& all, const std::map<OpKind, Classes>& by_kind, int ranks) {
  Laws best = laws_of(all, by_kind, 0);
  for (int undisturbed = 1; undisturbed < ranks - 1; ++undisturbed) {
    Laws laws = laws_of(all, by_kind, undisturbed);
    if (laws.deviation < kClearlyLess * best.deviation) best = std::move(laws);
  }
  return best;
}

class Fit {
 public:
  Fit(int ranks, bool by_load) : by_load_(by_load) { fit_.devices.ranks = ranks; }

  void add(const MeasuredRuns& run) {
    const Program& program = run.analyzed.program();
    const int devices = (program.pipeline().ranks() + fit_.devices.ranks - 1) / fit_.devices.ranks;
    if (by_load_) shares_.push_back(mean_share(run));
    const std::size_t number = by_load_ ? shares_.size() - 1 : 0;
    for (const TimedTrace& trace : run.traces) {
      StepWalk walk(number, program, trace, fit_.devices.ranks);
      for (int device = 0; device < devices; ++device) walk.observe(device, observed_);
    }
    for (const auto& [key, durations] : measured_durations(run.analyzed, run.traces)) {
      if (is_compute(key.kind)) continue;
      auto& all = durations_[key];
      append_all(all, durations);
    }
  }

  SlowdownFit find() && {
    Classes all;
    std::map<OpKind, Classes> by_kind;
    for (const Observation& action : observed_) {
      const std::pair key(action.program, action.key);
      all[key].push_back(&action);
      by_kind[action.key.kind][key].push_back(&action);
    }
    const Laws laws = best_laws(all, by_kind, fit_.devices.ranks);
    fit_.devices.undisturbed = laws.common.undisturbed;
    for (const auto& [kind, classes] : by_kind) add_kind(kind, classes, laws);
    if (!shares_.empty()) fit_.load = fit_load(shares_, times_);
    for (const auto& [key, durations] : alone_) {
      const double factor = shares_.empty() ? 1 : fit_.load.factor(shares_[key.first]);
      for (const double duration : durations)
        durations_[key.second].push_back(std::llround(duration / factor));
    }
    fit_.alone = mean_costs(durations_);
    return std::move(fit_);
  }

 private:
  static double mean_share(const MeasuredRuns& run) {
    double sum = 0;
    for (const TimedTrace& trace : run.traces) sum += busy_share(run.analyzed.program(), trace);
    return run.traces.empty() ? 0 : sum / static_cast<double>(run.traces.size());
  }

  void add_kind(OpKind kind, const Classes& classes, const Laws& laws) {
    KindSlowdown found{.kind = kind, .own = laws.own.contains(kind)};
    const Law law = found.own ? laws.own.at(kind) : laws.common;
    for (const auto& [key, actions] : classes) {
      found.actions += static_cast<std::int64_t>(actions.size());
      std::vector<double>& alone = alone_[key];
      for (const Observation* action : actions) {
        found.others += action->others();
        alone.push_back(static_cast<double>(action->duration()) * law.alone(*action));
      }
      const auto count = static_cast<double>(alone.size());
      times_.push_back(
          {key.first, key.second, std::accumulate(alone.begin(), alone.end(), 0.0) / count, count});
    }
    const auto count = static_cast<double>(found.actions);
    found.others /= count;
    found.slowdown = law.slowdown;
    found.spread_before = deviation(classes, Law{}) / count;
    found.spread_after = deviation(classes, law) / count;
    fit_.devices.slowdowns[kind] = std::llround(law.slowdown * static_cast<double>(SharedDevices::kWhole));
    fit_.kinds.push_back(found);
  }

  bool by_load_;
  SlowdownFit fit_;
  std::vector<Observation> observed_;
  std::vector<double> shares_;  ///< busy, of each Program; none where load is not looked at
  std::map<std::pair<std::size_t, CostClass>, std::vector<double>> alone_;
  std::vector<LoadedTime> times_;  ///< the means of these
  Durations durations_;
};

}  // namespace

SlowdownFit fit_slowdowns(std::span<const MeasuredRuns> runs, int ranks, bool by_load) {
  PPSIM_CHECK(ranks >= 1, "ranks on a device");
  Fit fit(ranks, by_load);
  for (const MeasuredRuns& run : runs) fit.add(run);
  return std::move(fit).find();
}

}  // namespace ppsim::planner
