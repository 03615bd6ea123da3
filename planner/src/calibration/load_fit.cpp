#include "ppsim/planner/calibration/load_fit.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/ir/padding.hpp"

namespace ppsim::planner {
namespace {

/// Busy shares that are closer together than this say nothing: a standard deviation of their logarithms.
constexpr double kMinShareSpread = 0.02;
constexpr double kMinExponent = 0.2;
constexpr double kMaxExponent = 0.5;

/// Of an action's class, the weighted means of the logarithms of busy share and time.
struct ClassMeans {
  double weight = 0, share = 0, time = 0;
};

/// The logarithms of a time and of its busy share, less the means of their class.
struct Deviation {
  std::size_t program = 0;
  double weight = 0, share = 0, time = 0;
};

std::vector<Deviation> deviations_of(std::span<const double> shares, std::span<const LoadedTime> times) {
  std::map<CostClass, ClassMeans> means;
  for (const LoadedTime& one : times) {
    ClassMeans& mean = means[one.key];
    mean.weight += one.actions;
    mean.share += one.actions * std::log(shares[one.program]);
    mean.time += one.actions * std::log(one.mean);
  }
  std::vector<Deviation> deviations;
  for (const LoadedTime& one : times) {
    const ClassMeans& mean = means.at(one.key);
    deviations.push_back({one.program, one.actions, std::log(shares[one.program]) - mean.share / mean.weight,
                          std::log(one.mean) - mean.time / mean.weight});
  }
  return deviations;
}

/// The standard error of an exponent where all times of a Program may be off together, as on a machine that
/// has changed its speed: clustered by Program (Cameron and Miller, "A Practitioner's Guide to Cluster-Robust
/// Inference", 2015, section II.B), and larger by G / (G - 2) of G Programs.
double error_of(double exponent, double squares, std::span<const Deviation> deviations,
                std::size_t programs) {
  std::vector<double> scores(programs);
  for (const Deviation& one : deviations)
    scores[one.program] += one.weight * one.share * (one.time - exponent * one.share);
  double sum = 0;
  for (const double score : scores) sum += score * score;
  const auto count = static_cast<double>(programs);
  return std::sqrt(sum * count / (count - 2)) / squares;
}

}  // namespace

double busy_share(const Program& program, const TimedTrace& trace) {
  Nanoseconds busy = 0;
  Nanoseconds first = std::numeric_limits<Nanoseconds>::max();
  Nanoseconds last = 0;
  for (const InstructionId id : program.ids()) {
    const Span& span = trace.spans[id];
    first = std::min(first, span.start.time);
    last = std::max(last, span.end.time);
    const auto actions = program.actions(id);
    if (is_compute(actions.front().kind) && !is_padding(program.pipeline(), actions))
      busy += span.end.time - span.start.time;
  }
  const double all = static_cast<double>(program.pipeline().ranks()) * static_cast<double>(last - first);
  return all > 0 ? static_cast<double>(busy) / all : 0;
}

double LoadFit::factor(double busy) const {
  return exponent == 0 || busy <= 0 ? 1 : std::pow(busy / share, exponent);
}

LoadFit fit_load(std::span<const double> shares, std::span<const LoadedTime> times) {
  PPSIM_CHECK(!shares.empty(), "a load without a Program");
  LoadFit fit{.share = shares.front()};
  if (shares.size() < 3 || std::ranges::any_of(shares, [](double share) { return share <= 0; })) return fit;
  const std::vector<Deviation> deviations = deviations_of(shares, times);
  double weight = 0;
  double squares = 0;
  double products = 0;
  for (const Deviation& one : deviations) {
    weight += one.weight;
    squares += one.weight * one.share * one.share;
    products += one.weight * one.share * one.time;
  }
  if (squares <= kMinShareSpread * kMinShareSpread * weight) return fit;
  const double exponent = products / squares;
  if (exponent >= kMinExponent && exponent >= 3 * error_of(exponent, squares, deviations, shares.size()))
    fit.exponent = std::min(exponent, kMaxExponent);
  return fit;
}

}  // namespace ppsim::planner
