#include "ppsim/planner/sweep.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <thread>

#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/text/as_text.hpp"
#include "ppsim/planner/costs/costs.hpp"
#include "ppsim/simulator/engine/batch.hpp"
#include "ppsim/simulator/engine/cost_binder.hpp"
#include "ppsim/simulator/engine/stuck.hpp"
#include "require_well_formed.hpp"

namespace ppsim::planner {
namespace {

Expected<CompiledProgram> compiled_program(const Program& program,
                                           const TransportCapabilities& capabilities) {
  const AnalyzedProgram analyzed(program, capabilities);
  PPSIM_RETURN_IF_ERROR(require_well_formed(analyzed));
  auto compiled = compile(analyzed);
  if (!compiled) return tl::unexpected(to_error(program, compiled.error()));
  return *std::move(compiled);
}

Error at_point(std::size_t index, Error error) {
  error.message = "point " + std::to_string(index) + ": " + error.message;
  return error;
}

/// Calls `work` in so many threads, this one among them, and returns when all have ended.
template <class Work>
void in_threads(int threads, const Work& work) {
  std::vector<std::jthread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(work);
  work();
}

/// A Program of several points, made ready once.
struct SharedProgram {
  explicit SharedProgram(CompiledProgram made) : compiled(std::move(made)), batch(compiled) {}
  CompiledProgram compiled;
  BatchProgram batch;
};

/// Points of one Program that run together: as many as there are lanes, the last ones perhaps fewer.
struct PointGroup {
  const SharedProgram* program = nullptr;
  std::vector<std::size_t> points;
};

/// The state that all threads of one call of simulate_many share.
class ManyPoints {
 public:
  ManyPoints(std::span<const SweepPoint> points, const SweepOptions& options)
      : points_(points), options_(options), times_(points.size()) {}

  [[nodiscard]] Expected<void> compile_all() {
    std::map<const Program*, std::size_t> open;  // the group to which points are added
    for (std::size_t i = 0; i < points_.size(); ++i) {
      const auto [group, is_new] = open.try_emplace(points_[i].program.get(), groups_.size());
      if (is_new) {
        auto made = compiled_program(*points_[i].program, options_.capabilities);
        if (!made) return tl::unexpected(at_point(i, made.error()));
        programs_.push_back(std::make_unique<const SharedProgram>(*std::move(made)));
        groups_.push_back({programs_.back().get(), {}});
      } else if (groups_[group->second].points.size() == kLanes) {
        groups_.push_back({groups_[group->second].program, {}});
        group->second = groups_.size() - 1;
      }
      groups_[group->second].points.push_back(i);
    }
    return {};
  }

  /// Takes groups until none is left.
  void work() {
    Worker worker;
    for (std::size_t i = next_++; i < groups_.size(); i = next_++) {
      if (options_.stopped && options_.stopped()) {
        stopped_ = true;
        return;
      }
      simulate_group(groups_[i], worker);
    }
  }

  [[nodiscard]] Expected<std::vector<StepTimes>> result() {
    if (stopped_) return make_error(ErrorCode::io, "stopped before all points were simulated");
    std::vector<StepTimes> result;
    result.reserve(times_.size());
    for (std::size_t i = 0; i < times_.size(); ++i) {
      if (!times_[i]) return tl::unexpected(at_point(i, times_[i].error()));
      result.push_back(*std::move(times_[i]));
    }
    return result;
  }

 private:
  /// The memory of one thread.
  struct Worker {
    BatchProgram::Scratch scratch;
    std::map<const SharedProgram*, CostBinder> binders;
  };

  void simulate_group(const PointGroup& group, Worker& worker) {
    std::vector<BoundCosts> bound;
    std::vector<std::size_t> runs;
    CostBinder& bind = worker.binders.try_emplace(group.program, group.program->compiled).first->second;
    for (const std::size_t point : group.points) {
      if (auto costs = bind(points_[point].costs)) {
        bound.push_back(*std::move(costs));
        runs.push_back(point);
      } else {
        times_[point] = tl::unexpected(costs.error());
      }
    }
    std::vector<StepTimes> times = simulate_batch(group.program->batch, bound, worker.scratch);
    for (std::size_t i = 0; i < runs.size(); ++i) times_[runs[i]] = std::move(times[i]);
  }

  std::span<const SweepPoint> points_;
  const SweepOptions& options_;
  std::vector<std::unique_ptr<const SharedProgram>> programs_;
  std::vector<PointGroup> groups_;
  std::vector<Expected<StepTimes>> times_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<bool> stopped_ = false;
};

/// Where the duration of one cost class is found at each point.
struct DurationSource {
  const Nanoseconds* first = nullptr;
  std::size_t stride = 0;  ///< 0: the same at every point
};

/// One source for each duration of a compiled Program. `constants` gets the durations that do not vary.
std::vector<DurationSource> duration_sources(const CostSweep& sweep, const CompiledProgram& program,
                                             std::vector<Nanoseconds>& constants) {
  // Tables of numbers of sources in the place of durations, so that keys mean what they mean in a table.
  std::vector<DurationSource> numbered(1);
  CostTable base;
  CostTable over;
  constants.assign(1, 0);  // for costs that no entry names
  for (const auto& [key, duration] : sweep.costs.entries()) {
    base.set(key, static_cast<Nanoseconds>(constants.size()));
    constants.push_back(duration);
  }
  numbered.resize(constants.size());
  for (std::size_t i = 0; i < constants.size(); ++i) numbered[i].first = &constants[i];
  for (const CostColumn& column : sweep.columns) {
    over.set(column.key, static_cast<Nanoseconds>(numbered.size()));
    numbered.push_back({column.durations.data(), 1});
  }
  const CostTable numbers = overlaid({base, {}}, {over, {}}).costs;
  std::vector<DurationSource> sources(CompiledProgram::kFirstBound, numbered[0]);
  for (const CostClass& key : program.cost_classes) sources.push_back(numbered[as_size(numbers(key))]);
  return sources;
}

/// The state that all threads of one call of simulate_sweep share.
class SweepRun {
 public:
  SweepRun(const CostSweep& sweep, const CompiledProgram& program, const SweepOptions& options)
      : batch_(program),
        options_(options),
        sources_(duration_sources(sweep, program, constants_)),
        times_(sweep.columns.empty() ? 0 : sweep.columns.front().durations.size()) {}

  /// Takes points until none is left.
  void work() {
    constexpr std::size_t kAtOnce = 64;
    Lanes lanes{std::vector<LaneTimes>(sources_.size()), {}, std::vector<StepTimes>(kLanes)};
    for (std::size_t begin = next_.fetch_add(kAtOnce); begin < times_.size();
         begin = next_.fetch_add(kAtOnce)) {
      if (options_.stopped && options_.stopped()) {
        stopped_ = true;
        return;
      }
      const std::size_t end = std::min(begin + kAtOnce, times_.size());
      for (std::size_t i = begin; i < end; i += kLanes) run(i, std::min(kLanes, end - i), lanes);
    }
  }

  [[nodiscard]] Expected<std::vector<PointTimes>> result() {
    if (stopped_) return make_error(ErrorCode::io, "stopped before all points were simulated");
    return std::move(times_);
  }

 private:
  /// The memory of one thread.
  struct Lanes {
    std::vector<LaneTimes> durations;
    BatchProgram::Scratch scratch;
    std::vector<StepTimes> times;
  };

  void run(std::size_t first, std::size_t count, Lanes& lanes) {
    for (std::size_t d = 0; d < sources_.size(); ++d) {
      for (std::size_t lane = 0; lane < count; ++lane)
        lanes.durations[d].of[lane] = sources_[d].first[sources_[d].stride * (first + lane)];
    }
    batch_.simulate(lanes.durations, lanes.scratch, std::span(lanes.times).first(count));
    for (std::size_t lane = 0; lane < count; ++lane) {
      const StepTimes& times = lanes.times[lane];
      times_[first + lane] = {times.makespan, rank_span(times), ideal_time(times), bubble_fraction(times),
                              bubble_fraction_span(times)};
    }
  }

  BatchProgram batch_;
  const SweepOptions& options_;
  std::vector<Nanoseconds> constants_;
  std::vector<DurationSource> sources_;
  std::vector<PointTimes> times_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<bool> stopped_ = false;
};

Expected<void> check_durations(const CostSweep& sweep) {
  for (const CostColumn& column : sweep.columns) {
    PPSIM_CHECK(column.durations.size() == sweep.columns.front().durations.size(), "see Requires");
    const auto below = std::ranges::find_if(column.durations, [](Nanoseconds ns) { return ns < 0; });
    if (below == column.durations.end()) continue;
    const auto index = as_size(below - column.durations.begin());
    return tl::unexpected(
        at_point(index, {ErrorCode::bad_argument,
                         "a duration of " + as_text(column.key) + " is below 0",
                         {.found = std::to_string(*below) + " ns", .expected = "0 or more"}}));
  }
  return {};
}

}  // namespace

Expected<std::vector<StepTimes>> simulate_many(std::span<const SweepPoint> points,
                                               const SweepOptions& options) {
  PPSIM_CHECK(options.threads >= 1 && !options.capabilities.residency, "see Requires");
  ManyPoints many(points, options);
  PPSIM_RETURN_IF_ERROR(many.compile_all());
  in_threads(options.threads, [&] { many.work(); });
  return many.result();
}

CostTable largest_costs(const CostSweep& sweep) {
  CostTable largest;
  for (const CostColumn& column : sweep.columns)
    largest.set(column.key, column.durations.empty() ? 0 : std::ranges::max(column.durations));
  return overlaid({sweep.costs, {}}, {largest, {}}).costs;
}

Expected<std::vector<PointTimes>> simulate_sweep(const CostSweep& sweep, const SweepOptions& options) {
  PPSIM_CHECK(options.threads >= 1 && !options.capabilities.residency, "see Requires");
  PPSIM_RETURN_IF_ERROR(check_durations(sweep));
  PPSIM_ASSIGN_OR_RETURN(const auto compiled, compiled_program(sweep.program, options.capabilities));
  PPSIM_RETURN_IF_ERROR(bind_costs(compiled, largest_costs(sweep)));
  SweepRun run(sweep, compiled, options);
  in_threads(options.threads, [&] { run.work(); });
  return run.result();
}

}  // namespace ppsim::planner
