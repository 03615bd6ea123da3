#include "ppsim/planner/sweep.hpp"

#include <atomic>
#include <map>
#include <thread>

#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/ir/overflow.hpp"
#include "ppsim/simulator/engine/stuck.hpp"
#include "require_well_formed.hpp"

namespace ppsim::planner {
namespace {

Expected<CompiledProgram> compiled_program(const Program& program,
                                           const TransportCapabilities& capabilities) {
  const AnalyzedProgram analyzed(program, capabilities);
  if (auto good = require_well_formed(analyzed); !good) return tl::unexpected(good.error());
  auto compiled = compile(analyzed);
  if (!compiled) return tl::unexpected(to_error(program, compiled.error()));
  return *std::move(compiled);
}

Error at_point(std::size_t index, Error error) {
  error.message = "point " + std::to_string(index) + ": " + error.message;
  return error;
}

/// What all threads of one sweep share.
class Sweep {
 public:
  Sweep(std::span<const SweepPoint> points, const SweepOptions& options)
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
      const auto bound = bind_costs(*compiled_[i], points_[i].costs);
      if (!bound) return tl::unexpected(bound.error());
      return simulate(*compiled_[i], *bound, scratch);
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

}  // namespace

Expected<std::vector<StepTimes>> simulate_many(std::span<const SweepPoint> points,
                                               const SweepOptions& options) {
  PPSIM_CHECK(options.threads >= 1 && !options.capabilities.residency, "see Requires");
  Sweep sweep(points, options);
  if (auto good = sweep.compile_all(); !good) return tl::unexpected(good.error());
  std::vector<std::jthread> others;
  for (int t = 1; t < options.threads; ++t) others.emplace_back([&] { sweep.work(); });
  sweep.work();
  others.clear();  // joins them
  return sweep.result();
}

}  // namespace ppsim::planner
