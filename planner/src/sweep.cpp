#include "ppsim/planner/sweep.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <sstream>
#include <thread>

#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/ir/overflow.hpp"
#include "ppsim/planner/costs/costs.hpp"
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

/// The state that all threads of one call of simulate_many share.
class ManyPoints {
 public:
  ManyPoints(std::span<const SweepPoint> points, const SweepOptions& options)
      : points_(points), options_(options), compiled_(points.size()), times_(points.size()) {}

  [[nodiscard]] Expected<void> compile_all() {
    std::map<const Program*, std::shared_ptr<const CompiledProgram>> known;
    for (std::size_t i = 0; i < points_.size(); ++i) {
      auto& compiled = known[points_[i].program.get()];
      if (!compiled) {
        auto made = compiled_program(*points_[i].program, options_.capabilities);
        if (!made) return tl::unexpected(at_point(i, made.error()));
        compiled = std::make_shared<const CompiledProgram>(*std::move(made));
      }
      compiled_[i] = compiled;
    }
    return {};
  }

  /// Takes points until none is left.
  void work() {
    SimulationScratch scratch;
    for (std::size_t i = next_++; i < points_.size(); i = next_++) {
      if (options_.stopped && options_.stopped()) {
        stopped_ = true;
        return;
      }
      times_[i] = times_of(i, scratch);
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
  [[nodiscard]] Expected<StepTimes> times_of(std::size_t i, SimulationScratch& scratch) const {
    try {
      PPSIM_ASSIGN_OR_RETURN(const auto bound, bind_costs(*compiled_[i], points_[i].costs));
      return simulate(*compiled_[i], bound, scratch);
    } catch (const Overflow& sum) {  // must not leave its thread
      return make_error(ErrorCode::bad_argument, sum.what());
    }
  }

  std::span<const SweepPoint> points_;
  const SweepOptions& options_;
  std::vector<std::shared_ptr<const CompiledProgram>> compiled_;
  std::vector<Expected<StepTimes>> times_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<bool> stopped_ = false;
};

/// Where the duration of one cost class is found at each point.
struct DurationSource {
  const Nanoseconds* first = nullptr;
  std::size_t stride = 0;  ///< 0: the same at every point
};

/// One source for each duration of a compiled Program. `constants` holds what does not vary.
std::vector<DurationSource> duration_sources(const CostSweep& sweep, const CompiledProgram& program,
                                             std::vector<Nanoseconds>& constants) {
  // Tables of numbers of sources in the place of durations, so that keys mean what they mean in a table.
  std::vector<DurationSource> numbered(1);
  CostTable base;
  CostTable over;
  constants.assign(1, 0);  // what no entry names
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
  for (const CostClass& key : program.cost_classes)
    sources.push_back(numbered[static_cast<std::size_t>(numbers(key))]);
  return sources;
}

/// The state that all threads of one call of simulate_sweep share.
class SweepRun {
 public:
  SweepRun(const CostSweep& sweep, const CompiledProgram& program, const SweepOptions& options)
      : program_(program),
        options_(options),
        sources_(duration_sources(sweep, program, constants_)),
        times_(sweep.columns.empty() ? 0 : sweep.columns.front().durations.size()) {}

  /// Takes points until none is left.
  void work() {
    constexpr std::size_t kAtOnce = 64;
    SimulationScratch scratch;
    BoundCosts bound{std::vector<Nanoseconds>(sources_.size())};
    for (std::size_t begin = next_.fetch_add(kAtOnce); begin < times_.size();
         begin = next_.fetch_add(kAtOnce)) {
      if (options_.stopped && options_.stopped()) {
        stopped_ = true;
        return;
      }
      for (std::size_t i = begin; i < std::min(begin + kAtOnce, times_.size()); ++i)
        times_[i] = times_of(i, bound, scratch);
    }
  }

  [[nodiscard]] Expected<std::vector<PointTimes>> result() {
    if (stopped_) return make_error(ErrorCode::io, "stopped before all points were simulated");
    return std::move(times_);
  }

 private:
  [[nodiscard]] PointTimes times_of(std::size_t i, BoundCosts& bound, SimulationScratch& scratch) const {
    for (std::size_t d = 0; d < sources_.size(); ++d)
      bound.durations[d] = sources_[d].first[sources_[d].stride * i];
    const StepTimes times = simulate(program_, bound, scratch);
    return {times.makespan, rank_span(times), ideal_time(times), bubble_fraction(times),
            bubble_fraction_span(times)};
  }

  const CompiledProgram& program_;
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
    const auto index = static_cast<std::size_t>(below - column.durations.begin());
    std::ostringstream key;
    key << column.key;
    return tl::unexpected(
        at_point(index, {ErrorCode::bad_argument,
                         "a duration of " + key.str() + " is below 0",
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
