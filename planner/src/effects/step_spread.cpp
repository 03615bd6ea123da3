#include "ppsim/planner/effects/step_spread.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <map>
#include <sstream>
#include <thread>

#include "percentile.hpp"
#include "ppsim/core/ir/overflow.hpp"

namespace ppsim::planner {
namespace {

/// The inputs of sampling one Program, made once.
struct DisturbedItems {
  static constexpr std::int32_t kFixed = -1;
  struct Source {
    FactorTable table;
    double correlation;
  };

  PricedItems items;
  std::vector<Source> sources;
  std::vector<std::int32_t> source_of;  ///< per item, into sources, or kFixed
  std::vector<std::uint32_t> previous;  ///< per item: the one before it at its place; 0: none
  std::vector<double> given;            ///< per item: the factor of its link, which is no rank's
  IdVector<RankId, double> slow_ranks;  ///< given factors
  std::optional<FactorTable> of_ranks;  ///< drawn once a step
};

Expected<void> add_varying(const VaryingCosts& varying, DisturbedItems& made) {
  bool any = false;
  made.sources.push_back({FactorTable(varying.spread), varying.spread.correlation});
  for (std::size_t i = 0; i < made.source_of.size(); ++i) {
    const bool takes_time = made.items.program.items[i].duration >= CompiledProgram::kFirstBound;
    const bool in = varying.group ? made.items.is_in(*varying.group, i) : takes_time;
    if (in) made.source_of[i] = static_cast<std::int32_t>(made.sources.size()) - 1;
    any = any || in;
  }
  if (any || !varying.group) return {};
  std::ostringstream found;
  found << *varying.group;
  return make_error(ErrorCode::bad_argument, "nothing of this group of costs is in the Program",
                    {.found = found.str(), .expected = "a kind, rank, stage, link or class that it has"});
}

Expected<void> add_slow_rank(const SlowRank& slow, DisturbedItems& made) {
  if (!slow.rank.valid() || slow.rank.index() >= made.slow_ranks.size()) {
    return make_error(ErrorCode::bad_argument, "a slow rank that the Program does not have",
                      {.found = std::to_string(slow.rank.value()),
                       .expected = "0 to " + std::to_string(made.slow_ranks.size() - 1)});
  }
  made.slow_ranks[slow.rank] *= slow.factor;
  return {};
}

Expected<void> add_slow_link(const SlowLink& slow, DisturbedItems& made) {
  bool any = false;
  for (std::size_t i = 0; i < made.given.size(); ++i) {
    const ItemPlace& place = made.items.places[i];
    const bool on_it =
        (place.rank == slow.a && place.peer == slow.b) || (place.rank == slow.b && place.peer == slow.a);
    if (on_it && place.peer.valid()) made.given[i] *= slow.factor;
    any = any || (on_it && place.peer.valid());
  }
  if (any) return {};
  return make_error(ErrorCode::bad_argument, "a slow link that the Program does not have",
                    {.found = std::to_string(slow.a.value()) + "-" + std::to_string(slow.b.value()),
                     .expected = "two ranks that send to each other"});
}

void link_places(DisturbedItems& made) {
  std::map<std::pair<RankId, RankId>, std::uint32_t> last;
  made.previous.assign(made.items.places.size(), 0);
  for (std::size_t i = 0; i < made.items.places.size(); ++i) {
    if (made.source_of[i] == DisturbedItems::kFixed) continue;
    std::uint32_t& before = last[{made.items.places[i].rank, made.items.places[i].peer}];
    made.previous[i] = std::exchange(before, static_cast<std::uint32_t>(i));
  }
}

Expected<DisturbedItems> disturbed_items(const SimulatedStep& step, const Disturbances& disturbances) {
  PPSIM_ASSIGN_OR_RETURN(auto items, priced_items(step));
  DisturbedItems made{std::move(items), {}, {}, {}, {}, {}, {}};
  made.source_of.assign(made.items.places.size(), DisturbedItems::kFixed);
  made.given.assign(made.items.places.size(), 1);
  made.slow_ranks =
      IdVector<RankId, double>(static_cast<std::size_t>(step.program().pipeline().ranks()), 1.0);
  for (const VaryingCosts& varying : disturbances.varying) PPSIM_RETURN_IF_ERROR(add_varying(varying, made));
  for (const SlowRank& slow : disturbances.slow_ranks) PPSIM_RETURN_IF_ERROR(add_slow_rank(slow, made));
  for (const SlowLink& slow : disturbances.slow_links) PPSIM_RETURN_IF_ERROR(add_slow_link(slow, made));
  if (disturbances.ranks) made.of_ranks.emplace(*disturbances.ranks);
  link_places(made);
  return made;
}

/// One sample after another, each by its number alone.
class Sampler {
 public:
  Sampler(const DisturbedItems& made, std::uint64_t seed)
      : made_(made),
        seed_(seed),
        normals_(made.items.costs.size()),
        factors_(made.items.costs.size(), 1.0),
        ends_(made.items.costs.size()) {}

  void draw(std::uint64_t sample) {
    for (std::size_t i = 0; i < factors_.size(); ++i) factors_[i] = made_.given[i] * varied(sample, i);
    ranks_ = made_.slow_ranks;
    if (!made_.of_ranks) return;
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      ranks_[RankId(static_cast<std::int32_t>(r))] *=
          (*made_.of_ranks)(simulator::normal_draw({seed_, sample, factors_.size() + r}));
  }

  [[nodiscard]] const IdVector<RankId, double>& rank_factors() const { return ranks_; }
  void set_rank_factor(RankId rank, double factor) { ranks_[rank] = factor; }

  [[nodiscard]] Nanoseconds cost(std::size_t item) const {
    const ItemPlace& place = made_.items.places[item];
    const bool of_rank = place.rank.valid() && !place.peer.valid();
    const double factor = of_rank ? factors_[item] * ranks_[place.rank] : factors_[item];
    return simulator::scaled_cost(made_.items.costs[item], factor);
  }

  /// Of the sample that was drawn last.
  [[nodiscard]] Nanoseconds step(IdVector<RankId, Nanoseconds>* busy) {
    const std::vector<CompiledItem>& items = made_.items.program.items;
    for (std::size_t i = 1; i < items.size(); ++i) {
      const Nanoseconds taken = cost(i);
      if (__builtin_add_overflow(std::max(ends_[items[i].first], ends_[items[i].second]), taken, &ends_[i]))
        throw Overflow("a step of disturbed costs");
      if (busy != nullptr && is_computed(i)) (*busy)[made_.items.places[i].rank] += taken;
    }
    Nanoseconds step = 0;
    for (const std::uint32_t last : made_.items.program.last_items) step = std::max(step, ends_[last]);
    return step;
  }

 private:
  double varied(std::uint64_t sample, std::size_t item) {
    const std::int32_t source = made_.source_of[item];
    if (source == DisturbedItems::kFixed) return 1;
    const DisturbedItems::Source& from = made_.sources[static_cast<std::size_t>(source)];
    const double fresh = simulator::normal_draw({seed_, sample, item});
    const std::uint32_t before = made_.previous[item];
    normals_[item] = before == 0 ? fresh : simulator::correlated(normals_[before], fresh, from.correlation);
    return from.table(normals_[item]);
  }

  [[nodiscard]] bool is_computed(std::size_t item) const {
    const CostClass* key = simulator::cost_class_of(made_.items.program, made_.items.program.items[item]);
    return key != nullptr && info(key->kind).resource == Resource::compute;
  }

  const DisturbedItems& made_;
  std::uint64_t seed_;
  std::vector<double> normals_;
  std::vector<double> factors_;
  IdVector<RankId, double> ranks_;
  std::vector<Nanoseconds> ends_;
};

/// The result of one sample.
struct Sample {
  Nanoseconds step = 0;
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
  std::vector<Sample> samples(static_cast<std::size_t>(options.samples));
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
  std::sort(values.begin(), values.end());
  for (std::size_t i = 0; i < Spread::kShares.size(); ++i) {
    const double share = Spread::kShares[i];
    const double margin = kNinetyFive * std::sqrt(share * (1 - share) / count);
    spread.percentiles[i] = percentile(values, share);
    spread.lowest[i] = percentile(values, std::max(0.0, share - margin));
    spread.highest[i] = percentile(values, std::min(1.0, share + margin));
  }
  return spread;
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
  if (sample.step == 0) return 0;
  double busy = 0;
  for (const Nanoseconds of_rank : sample.busy) busy += static_cast<double>(of_rank);
  return 1 - busy / static_cast<double>(sample.busy.size()) / static_cast<double>(sample.step);
}

RankSpread rank_spread(const std::vector<Sample>& samples, RankId rank) {
  RankSpread result;
  result.busy_ns = spread_of(of_each(samples, [&](const Sample& s) { return s.busy[rank]; }));
  result.mean_idle_ns = mean_of(of_each(samples, [&](const Sample& s) { return s.step - s.busy[rank]; }));
  result.mean_factor = mean_of(of_each(samples, [&](const Sample& s) { return s.factors[rank]; }));
  std::vector<double> gains;
  for (const Sample& sample : samples) {
    if (!sample.gains.empty()) gains.push_back(static_cast<double>(sample.gains[rank]));
  }
  result.gain_ns = mean_of(gains);
  return result;
}

Expected<void> check_options(const SpreadOptions& options) {
  if (options.samples < 1)
    return make_error(ErrorCode::bad_argument, "samples out of range",
                      {.found = std::to_string(options.samples), .expected = "1 or more"});
  if (options.threads < 1)
    return make_error(ErrorCode::bad_argument, "threads out of range",
                      {.found = std::to_string(options.threads), .expected = "1 or more"});
  const auto is_bad = [](const auto& slow) { return !(slow.factor >= 0 && slow.factor <= 1e6); };
  if (std::ranges::any_of(options.disturbances.slow_ranks, is_bad) ||
      std::ranges::any_of(options.disturbances.slow_links, is_bad))
    return make_error(ErrorCode::bad_argument, "a factor out of range", {.expected = "0 to 1000000"});
  return {};
}

}  // namespace

Expected<StepSpread> step_spread(const SimulatedStep& step, const SpreadOptions& options) {
  PPSIM_RETURN_IF_ERROR(check_options(options));
  PPSIM_ASSIGN_OR_RETURN(const auto made, disturbed_items(step, options.disturbances));
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
  PPSIM_ASSIGN_OR_RETURN(const auto made, disturbed_items(step, options.disturbances));
  Sampler sampler(made, options.seed);
  sampler.draw(sample);
  std::vector<Nanoseconds> costs;
  for (std::size_t i = 0; i < made.items.costs.size(); ++i) costs.push_back(sampler.cost(i));
  return costs;
}

}  // namespace ppsim::planner
