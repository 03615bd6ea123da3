#include "ppsim/planner/effects/step_spread.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "disturbed_items.hpp"
#include "percentile.hpp"
#include "ppsim/core/ir/overflow.hpp"

namespace ppsim::planner {

/// In the order of the samples, so that sums are rounded alike on any number of threads.
Spread spread_of(std::vector<double> values) {
  Spread spread;
  const auto count = static_cast<double>(values.size());
  for (const double value : values) spread.mean += value;
  spread.mean /= count;
  double squares = 0;
  for (const double value : values) squares += (value - spread.mean) * (value - spread.mean);
  constexpr double kNinetyFive = 1.959963984540054;
  if (count > 1) spread.mean_error = kNinetyFive * std::sqrt(squares / (count - 1) / count);
  std::ranges::sort(values);
  for (std::size_t i = 0; i < Spread::kShares.size(); ++i) {
    const double share = Spread::kShares[i];
    const double margin = kNinetyFive * std::sqrt(share * (1 - share) / count);
    spread.percentiles[i] = percentile(values, share);
    spread.lowest[i] = percentile(values, std::max(0.0, share - margin));
    spread.highest[i] = percentile(values, std::min(1.0, share + margin));
  }
  return spread;
}

namespace {

constexpr int kMaxThreads = 1024;

/// The result of one sample.
struct Sample {
  Nanoseconds step = 0;
  Nanoseconds pipeline = 0;
  IdVector<RankId, Nanoseconds> busy;
  IdVector<RankId, double> factors;
  IdVector<RankId, Nanoseconds> gains;  ///< empty where they are not asked for
};

Sample sampled(Sampler& sampler, std::uint64_t number, const SpreadOptions& options) {
  sampler.draw(number);
  Sample sample;
  sample.factors = sampler.rank_factors();
  sample.busy = IdVector<RankId, Nanoseconds>(sample.factors.size(), 0);
  sample.step = sampler.step(&sample.busy);
  sample.pipeline = sampler.pipeline();
  if (number >= static_cast<std::uint64_t>(options.replacement_samples)) return sample;
  for (const RankId rank : sample.factors.ids()) {
    Nanoseconds gain = 0;
    if (sample.factors[rank] != 1) {
      sampler.set_rank_factor(rank, 1);
      gain = sample.step - sampler.step(nullptr);
      sampler.set_rank_factor(rank, sample.factors[rank]);
    }
    sample.gains.push_back(gain);
  }
  return sample;
}

/// All samples, by any number of threads.
std::vector<Sample> all_samples(const DisturbedItems& made, const SpreadOptions& options) {
  std::vector<Sample> samples(as_size(options.samples));
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> too_large = false;
  const auto work = [&] {
    Sampler sampler(made, options.seed);
    try {
      for (std::size_t i = next++; i < samples.size(); i = next++) samples[i] = sampled(sampler, i, options);
    } catch (const Overflow&) {  // must not leave its thread
      too_large = true;
    }
  };
  std::vector<std::jthread> threads;
  for (int i = 1; i < options.threads; ++i) threads.emplace_back(work);
  work();
  threads.clear();
  if (too_large) throw Overflow("a step of disturbed costs");
  return samples;
}

template <class Figure>
std::vector<double> of_each(const std::vector<Sample>& samples, const Figure& figure) {
  std::vector<double> values;
  values.reserve(samples.size());
  for (const Sample& sample : samples) values.push_back(static_cast<double>(figure(sample)));
  return values;
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

double bubble_of_sample(const Sample& sample) {
  if (sample.pipeline == 0) return 0;
  double busy = 0;
  for (const Nanoseconds of_rank : sample.busy) busy += static_cast<double>(of_rank);
  return 1 - busy / static_cast<double>(sample.busy.size()) / static_cast<double>(sample.pipeline);
}

RankSpread rank_spread(const std::vector<Sample>& samples, RankId rank) {
  RankSpread result;
  result.busy_ns = spread_of(of_each(samples, [&](const Sample& s) { return s.busy[rank]; }));
  result.mean_idle_ns = mean_of(of_each(samples, [&](const Sample& s) { return s.pipeline - s.busy[rank]; }));
  result.mean_factor = mean_of(of_each(samples, [&](const Sample& s) { return s.factors[rank]; }));
  std::vector<double> gains;
  for (const Sample& sample : samples) {
    if (!sample.gains.empty()) gains.push_back(static_cast<double>(sample.gains[rank]));
  }
  if (gains.empty()) return result;
  const Spread gain = spread_of(std::move(gains));
  result.gain_ns = gain.mean;
  result.gain_error_ns = gain.mean_error;
  return result;
}

Expected<void> check_options(const SpreadOptions& options) {
  if (options.samples < 1)
    return make_error(ErrorCode::bad_argument, "samples out of range",
                      {.found = std::to_string(options.samples), .expected = "1 or more"});
  if (options.threads < 1 || options.threads > kMaxThreads)
    return make_error(
        ErrorCode::bad_argument, "threads out of range",
        {.found = std::to_string(options.threads), .expected = "1 to " + std::to_string(kMaxThreads)});
  return {};
}

Expected<DisturbedItems> items_of(const SimulatedStep& step, const Disturbances& disturbances) {
  PPSIM_ASSIGN_OR_RETURN(auto items, priced_items(step));
  return disturbed_items(std::move(items), step.analyzed, disturbances);
}

}  // namespace

Expected<StepSpread> step_spread(const SimulatedStep& step, const SpreadOptions& options) {
  PPSIM_RETURN_IF_ERROR(check_options(options));
  PPSIM_ASSIGN_OR_RETURN(const auto made, items_of(step, options.disturbances));
  const std::vector<Sample> samples = all_samples(made, options);
  StepSpread result;
  result.planned_ns = step.step();
  result.steps_ns = of_each(samples, [](const Sample& sample) { return sample.step; });
  result.step_ns = spread_of(result.steps_ns);
  result.bubble = spread_of(of_each(samples, bubble_of_sample));
  for (std::size_t r = 0; r < made.slow_ranks.size(); ++r)
    result.ranks.push_back(rank_spread(samples, RankId(static_cast<std::int32_t>(r))));
  return result;
}

Expected<std::vector<Nanoseconds>> disturbed_costs(const SimulatedStep& step, const SpreadOptions& options,
                                                   std::uint64_t sample) {
  PPSIM_RETURN_IF_ERROR(check_options(options));
  PPSIM_ASSIGN_OR_RETURN(const auto made, items_of(step, options.disturbances));
  Sampler sampler(made, options.seed);
  sampler.draw(sample);
  std::vector<Nanoseconds> costs;
  for (std::size_t i = 0; i < made.priced.costs.size(); ++i) costs.push_back(sampler.cost(i));
  return costs;
}

}  // namespace ppsim::planner
