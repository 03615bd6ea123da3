#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "fitted_axes.hpp"
#include "ppsim/core/ir/overflow.hpp"
#include "ppsim/core/ir/sequences.hpp"
#include "ppsim/planner/costs/priced_program.hpp"
#include "run_workload.hpp"

namespace ppsim::planner {
namespace {

constexpr int kFirstStep = 4;
constexpr int kCoarsePoints = 81;
constexpr double kMaxError =
    0.12;  // so that a run that something else slowed down does not pull the constants after it

using GridPoint = std::array<int, kFittedAxes.size()>;

FittedConstants grid_constants(const GridPoint& point) {
  FittedConstants constants;
  for (std::size_t i = 0; i < kFittedAxes.size(); ++i)
    constants.*kFittedAxes[i].constant = kFittedAxes[i].value(point[i]);
  return constants;
}

/// A row that constants are fitted to. Its Program stays as it was lowered first.
struct FittedRow {
  std::string source;
  MeasurementKind kind;
  double measured = 0;
  Workload workload;
  PricedProgram program;
  RunEffects effects;
  double longer = 1;  ///< with links and transfers, under the constants as they are

  /// |log(simulated / measured)|, of which what is above kMaxError is not the model's.
  double error(const FittedConstants& constants) {
    workload.fitted = constants_with(effects, constants, workload.cluster.gpu);
    const auto step = program.step(workload);
    if (!step) return 0;
    return std::min(kMaxError, std::abs(std::log(longer * static_cast<double>(*step) * 1e-9 / measured)));
  }
};

/// How many times as long links and transfers make the step.
double longer_with(const RunEffects& effects, const RunDescription& run) {
  const RunEffects priced{.collectives = effects.collectives};
  if (effects == priced) return 1;
  const auto without = simulate_run(run, {}, priced);
  const auto with = simulate_run(run, {}, effects);
  return without && with ? with->step_s / without->step_s : 1;
}

std::optional<FittedRow> fitted_row(const MeasuredRow& row, const RunEffects& effects) {
  const auto* run = std::get_if<RunDescription>(&row.run);
  if (run == nullptr || run->is_moe() || !row.seconds || !may_be_fitted_to(row.kind)) return std::nullopt;
  auto work = workload_of(*run);
  if (!work || !is_fitted_to(work->cluster)) return std::nullopt;
  auto lowered = program_of(*run, *work);
  if (!lowered) return std::nullopt;
  auto program = PricedProgram::make(std::move(lowered->program));
  if (!program) return std::nullopt;
  return FittedRow{row.source,
                   row.kind,
                   *row.seconds,
                   *std::move(work),
                   *std::move(program),
                   effects,
                   longer_with(effects, *run)};
}

/// Fits to all rows but those of one source. What a point of the grid comes to is kept for the next fit.
class Fitter {
 public:
  explicit Fitter(std::vector<FittedRow> rows) : rows_(std::move(rows)) {}

  [[nodiscard]] int rows_without(const std::string& source) const {
    return static_cast<int>(
        std::ranges::count_if(rows_, [&](const FittedRow& r) { return r.source != source; }));
  }

  /// From the best of a coarse grid, in steps that get smaller.
  FittedConstants fit_without(const std::string& source) {
    auto [point, loss] = coarse_fit(source);
    for (int step = kFirstStep; step > 0; step /= 2) {
      while (const auto better = step_down(source, point, {loss, step})) std::tie(point, loss) = *better;
    }
    return grid_constants(point);
  }

 private:
  /// Of three values of every constant.
  std::pair<GridPoint, double> coarse_fit(const std::string& source) {
    std::optional<std::pair<GridPoint, double>> best;
    for (int index = 0; index < kCoarsePoints; ++index) {
      GridPoint point{};
      for (std::size_t i = 0, rest = as_size(index); i < point.size(); ++i, rest /= 3)
        point[i] = kFittedAxes[i].count / 4 * (1 + static_cast<int>(rest % 3));
      const double loss = loss_without(source, point);
      if (!best || loss < best->second) best = {point, loss};
    }
    return *best;
  }

  struct From {
    double loss;
    int step;
  };

  /// The best of all points one step away, if it is better.
  std::optional<std::pair<GridPoint, double>> step_down(const std::string& source, const GridPoint& point,
                                                        const From& from) {
    std::optional<std::pair<GridPoint, double>> best;
    for (std::size_t i = 0; i < kFittedAxes.size(); ++i) {
      for (const int way : {-from.step, from.step}) {
        GridPoint next = point;
        next[i] = std::clamp(next[i] + way, 0, kFittedAxes[i].count - 1);
        const double loss = loss_without(source, next);
        if (loss < (best ? best->second : from.loss)) best = {next, loss};
      }
    }
    return best;
  }

  /// Over kinds of files the sum of the mean error of their rows times the root of their number: between rows
  /// that count the same, of which one kind has four of five, and kinds that do.
  double loss_without(const std::string& source, const GridPoint& point) {
    const std::vector<double>& errors = errors_at(point);
    std::map<MeasurementKind, std::pair<double, int>> kinds;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (rows_[i].source == source) continue;
      auto& [sum, rows] = kinds[rows_[i].kind];
      sum += errors[i];
      ++rows;
    }
    double loss = 0;
    for (const auto& [kind, of_kind] : kinds) loss += of_kind.first / std::sqrt(of_kind.second);
    return loss;
  }

  const std::vector<double>& errors_at(const GridPoint& point) {
    const auto [found, is_new] = known_.try_emplace(point);
    if (!is_new) return found->second;
    const FittedConstants constants = grid_constants(point);
    for (FittedRow& row : rows_) found->second.push_back(row.error(constants));
    return found->second;
  }

  std::vector<FittedRow> rows_;
  std::map<GridPoint, std::vector<double>> known_;
};

/// Rows with a simulated step, by source; mixtures of experts, given stage times, and those that no fit sees
/// are not among them.
std::vector<std::pair<std::string, std::vector<std::size_t>>> dense_by_source(const Validation& validation) {
  std::vector<std::pair<std::string, std::vector<std::size_t>>> sources;
  for (const Comparison& one : validation.steps.comparisons) {
    const MeasuredRow& row = validation.rows[one.row];
    const auto* run = std::get_if<RunDescription>(&row.run);
    const bool is_dense = run != nullptr && !run->is_moe();
    if (!one.simulated || !is_dense || !may_be_fitted_to(row.kind)) continue;
    auto known = std::ranges::find(sources, row.source, [](const auto& source) { return source.first; });
    if (known == sources.end()) known = sources.insert(sources.end(), {row.source, {}});
    known->second.push_back(one.row);
  }
  return sources;
}

/// Nothing where 64 bits do not hold the times that such constants make.
std::optional<double> error_percent(const MeasuredRow& row, const FittedConstants& constants,
                                    const RunEffects& effects) {
  try {
    const auto run = simulate_run(std::get<RunDescription>(row.run), constants, effects);
    if (!run) return std::nullopt;
    return (run->step_s / *row.seconds - 1) * 100;
  } catch (const Overflow&) {
    return std::nullopt;
  }
}

Fitter fitter_of(const Validation& validation) {
  std::vector<FittedRow> rows;
  for (const Comparison& one : validation.steps.comparisons) {
    if (!one.simulated) continue;
    if (auto row = fitted_row(validation.rows[one.row], validation.effects)) rows.push_back(*std::move(row));
  }
  return Fitter(std::move(rows));
}

}  // namespace

bool is_fitted_to(const ClusterDescription& cluster) {
  return cluster.gpu.name.starts_with("a100") || cluster.gpu.name.starts_with("h100");
}

void add_refit(Validation& validation) {
  Fitter fitter = fitter_of(validation);
  Refit refit{
      .fitted_to = fitter.rows_without(""), .constants = fitter.fit_without(""), .sources = {}, .dense = {}};
  std::vector<double> all;
  for (const auto& [source, rows] : dense_by_source(validation)) {
    SourceLeftOut out{source, fitter.rows_without(source), fitter.fit_without(source), {}};
    std::vector<double> errors;
    for (const std::size_t row : rows) {
      if (const auto error = error_percent(validation.rows[row], out.constants, validation.effects))
        errors.push_back(*error);
    }
    out.errors = error_statistics(errors);
    append_all(all, errors);
    refit.sources.push_back(std::move(out));
  }
  refit.dense = error_statistics(all);
  if (refit.dense.n > 0) validation.steps.groups.push_back({"dense leave-one-source-out", refit.dense});
  validation.refit = std::move(refit);
}

}  // namespace ppsim::planner
