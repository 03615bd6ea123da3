#include "synthesis/placement_search.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

#include "limits.hpp"

namespace ppsim::verifier::synthesis {
namespace {

constexpr std::size_t kMaxListed = 2'000;         // placements that are all searched
constexpr std::size_t kFinalists = 32;            // placements that are searched longer where not all are
constexpr std::int64_t kStepsPerLook = 500;       // of the first look at a neighbour
constexpr std::int64_t kStepsPerRound = 100'000;  // of a placement, where the time suffices
constexpr double kNeighbourShare = 0.5;           // of steps or time, for going from neighbour to neighbour
constexpr double kSearchShare = 0.5;              // of the time, before what is left is decided

/// The same placement with its ranks numbered in the order of their first stages.
Placement renumbered(const Placement& placement) {
  std::map<RankId, RankId> number;
  Placement result;
  for (const RankId rank : placement)
    result.push_back(number.emplace(rank, RankId(static_cast<int>(number.size()))).first->second);
  return result;
}

/// Calls visit for every placement until it returns false.
class Placements {
 public:
  Placements(int ranks, int chunks) : chunks_(chunks), used_(static_cast<std::size_t>(ranks)) {}

  template <class Visit>
  bool visit_all(Visit&& visit) {
    if (placement_.size() == used_.size() * static_cast<std::size_t>(chunks_)) return visit(placement_);
    for (std::size_t r = 0; r < used_.size(); ++r) {
      if (used_[r] == chunks_) continue;
      const bool opens = used_[r] == 0;
      ++used_[r];
      placement_.emplace_back(static_cast<int>(r));
      const bool goes_on = visit_all(visit);
      placement_.pop_back();
      --used_[r];
      if (!goes_on) return false;
      if (opens) break;  // another rank without a stage would be the same with other numbers
    }
    return true;
  }

 private:
  int chunks_;
  std::vector<int> used_;  ///< stages of each rank so far
  Placement placement_;
};

/// No rank of the busiest placement works less than all ranks do in the mean.
Nanoseconds work_bound(const SynthesisRequest& request) {
  Nanoseconds work = 0;
  for (int s = 0; s < static_cast<int>(request.placement.size()); ++s) {
    for (const OpKind kind : phases_of(request.backward)) work += request.costs({kind, s, -1, 0});
  }
  work *= request.microbatches;
  return (work + request.ranks - 1) / request.ranks;
}

}  // namespace

std::vector<Placement> all_placements(int ranks, int chunks, std::size_t limit) {
  std::vector<Placement> all;
  const bool complete = Placements(ranks, chunks).visit_all([&](const Placement& placement) {
    all.push_back(placement);
    return all.size() <= limit;
  });
  if (!complete) all.clear();
  return all;
}

PlacementSearch::PlacementSearch(const FreePlacement& asked, Clock::time_point deadline)
    : asked_(asked), deadline_(deadline), random_(asked.request.seed) {}

/// Costs of a loop and of the same loop one rank further differ where ranks share nodes with some and not
/// with others: then placements with other numbers are not the same, and bounds of one do not hold for them.
Expected<void> PlacementSearch::check_numbers() const {
  std::vector<CostTable> costs;
  for (const int shift : {0, 1}) {
    SynthesisRequest request = asked_.request;
    request.placement.clear();
    for (int s = 0; s < request.ranks * asked_.chunks; ++s)
      request.placement.emplace_back((s + shift) % request.ranks);
    PPSIM_RETURN_IF_ERROR(asked_.bind(request));
    costs.push_back(std::move(request.costs));
  }
  if (costs[0] == costs[1]) return {};
  return make_error(ErrorCode::bad_argument, "a free placement counts all ranks as alike",
                    {.found = "transfers that depend on which ranks share a node",
                     .expected = "all ranks on one node, each on its own, or a placement that is given"});
}

Expected<void> PlacementSearch::run() {
  PPSIM_RETURN_IF_ERROR(check_numbers());
  for (const Placement& placement : asked_.first) {
    PPSIM_ASSIGN_OR_RETURN(const std::size_t index, add(placement));
    explore(index, 0, deadline_);
  }
  const auto all = all_placements(asked_.request.ranks, asked_.chunks, kMaxListed);
  if (!all.empty()) {
    PPSIM_RETURN_IF_ERROR(look_at_all(all));
  } else {
    PPSIM_RETURN_IF_ERROR(go_to_neighbours());
  }
  halve(all_listed_ ? candidates_.size() : std::min(candidates_.size(), kFinalists));
  if (!asked_.request.max_steps) decide();
  return {};
}

Expected<std::size_t> PlacementSearch::add(const Placement& placement) {
  const auto [place, is_new] = index_of_.emplace(renumbered(placement), candidates_.size());
  if (!is_new) return place->second;
  SynthesisRequest request = asked_.request;
  request.placement = place->first;
  request.progress = {};
  PPSIM_RETURN_IF_ERROR(asked_.bind(request));
  PPSIM_RETURN_IF_ERROR(check_request(request));
  const Nanoseconds bound = work_bound(request);
  candidates_.push_back({.request = std::move(request), .bound = bound});
  return place->second;
}

void PlacementSearch::explore(std::size_t index, std::optional<std::int64_t> steps,
                              Clock::time_point deadline) {
  Candidate& candidate = candidates_[index];
  if (candidate.bound == std::numeric_limits<Nanoseconds>::max()) return;
  ++looks_;
  candidate.open = no_room(candidate.request);
  if (!candidate.open.empty()) {
    candidate.bound = std::numeric_limits<Nanoseconds>::max();
    return;
  }
  candidate.request.max_steps = steps;
  Search search(candidate.request, deadline);
  search.run();
  take(index, search);
  tell();
}

void PlacementSearch::take(std::size_t index, const Search& search) {
  Candidate& candidate = candidates_[index];
  queries_ += search.queries();
  steps_ += search.steps();
  candidate.open = search.open();
  if (search.lower_bound() > candidate.bound || candidate.bound_method == "work") {
    candidate.bound = std::max(candidate.bound, search.lower_bound());
    candidate.bound_method = search.bound_method();
  }
  const Incumbent& found = search.incumbent();
  if (found.empty() || (candidate.schedule && found.value() >= candidate.value)) return;
  candidate.schedule = found.schedule();
  candidate.value = found.value();
  candidate.method = found.method();
  candidate.request.known.push_back(found.schedule());
  if (!best_ || candidate.value < candidates_[*best_].value) best_ = index;
}

Expected<void> PlacementSearch::look_at_all(const std::vector<Placement>& placements) {
  const std::size_t known = candidates_.size();
  for (const Placement& placement : placements) PPSIM_RETURN_IF_ERROR(add(placement));
  all_listed_ = true;
  for (std::size_t index = known; index < candidates_.size() && !late(); ++index)
    explore(index, 0, deadline_);
  return {};
}

/// Climbs to a placement that no exchange of two stages improves, and starts again from near the best.
Expected<void> PlacementSearch::go_to_neighbours() {
  std::size_t at = best_.value_or(0);
  while (!late() && !spent(kNeighbourShare) && !(best_ && best()->value == lower_bound().first)) {
    PPSIM_ASSIGN_OR_RETURN(const auto better, better_neighbour(at));
    if (better) {
      at = *better;
      continue;
    }
    PPSIM_ASSIGN_OR_RETURN(at, add(moved(best_.value_or(0))));
    explore(at, kStepsPerLook, within(kNeighbourShare));
  }
  return {};
}

Expected<std::optional<std::size_t>> PlacementSearch::better_neighbour(std::size_t from) {
  const Placement placement = candidates_[from].request.placement;
  std::vector<std::pair<std::size_t, std::size_t>> exchanges;
  for (std::size_t a = 0; a < placement.size(); ++a) {
    for (std::size_t b = a + 1; b < placement.size(); ++b) {
      if (placement[a] != placement[b]) exchanges.emplace_back(a, b);
    }
  }
  std::shuffle(exchanges.begin(), exchanges.end(), random_);
  for (const auto& [a, b] : exchanges) {
    if (late() || spent(kNeighbourShare)) break;
    Placement exchanged = placement;
    std::swap(exchanged[a], exchanged[b]);
    const std::size_t known = candidates_.size();
    PPSIM_ASSIGN_OR_RETURN(const std::size_t index, add(exchanged));
    if (index < known) continue;
    explore(index, kStepsPerLook, within(kNeighbourShare));
    const Candidate& found = candidates_[index];
    if (found.schedule && (!candidates_[from].schedule || found.value < candidates_[from].value))
      return index;
  }
  return std::nullopt;
}

Placement PlacementSearch::moved(std::size_t from) {
  constexpr int kExchanges = 3;
  Placement placement = candidates_[from].request.placement;
  for (int i = 0; i < kExchanges; ++i)
    std::swap(placement[random_() % placement.size()], placement[random_() % placement.size()]);
  return placement;
}

std::vector<std::size_t> PlacementSearch::by_value() const {
  std::vector<std::size_t> order(candidates_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const auto key = [&](const Candidate& candidate) {
      return std::tuple(!candidate.schedule, candidate.value, candidate.bound);
    };
    return key(candidates_[a]) < key(candidates_[b]);
  });
  return order;
}

std::vector<std::size_t> PlacementSearch::undecided() const {
  std::vector<std::size_t> open;
  for (const std::size_t index : by_value()) {
    if (candidates_[index].bound <
        (best_ ? candidates_[*best_].value : std::numeric_limits<Nanoseconds>::max()))
      open.push_back(index);
  }
  return open;
}

/// Searches the best `count` placements, then the better half of them, and so on: each round has the same
/// share of the time or of the steps, of which the last placement has half. Source: Karnin, Koren, Somekh,
/// "Almost Optimal Exploration in Multi-Armed Bandits", ICML 2013 (sequential halving).
void PlacementSearch::halve(std::size_t count) {
  const std::int64_t steps_before = steps_;
  std::int64_t rounds = 1;
  for (std::size_t left = count; left > 1; left /= 2) ++rounds;
  for (std::int64_t round = 1; round <= rounds; ++round, count /= 2) {
    std::vector<std::size_t> chosen = undecided();
    chosen.resize(std::min(chosen.size(), count));
    const auto parts = static_cast<std::int64_t>(chosen.size());
    const auto time = within(kSearchShare / static_cast<double>(rounds - round + 1)) - Clock::now();
    for (const std::size_t index : chosen) {
      if (late()) return;
      if (!asked_.request.max_steps) {
        explore(index, kStepsPerRound, Clock::now() + time / parts);
        continue;
      }
      const std::int64_t left = *asked_.request.max_steps - steps_before;
      const std::int64_t steps =
          round == rounds ? left / (rounds > 1 ? 2 : 1) : left / 2 / (rounds - 1) / parts;
      if (steps > 0) explore(index, steps, deadline_);
    }
  }
}

/// What may still be better than the best is searched and decided as with a given placement.
void PlacementSearch::decide() {
  for (std::vector<std::size_t> open = undecided(); !open.empty() && !late(); open = undecided()) {
    if (!all_listed_) open.resize(std::min(open.size(), kFinalists));
    for (std::size_t i = 0; i < open.size() && !late(); ++i) {
      if (best_ && candidates_[open[i]].bound >= candidates_[*best_].value) continue;
      explore(open[i], std::nullopt, within(1.0 / static_cast<double>(open.size() - i)));
    }
  }
}

std::pair<Nanoseconds, std::string> PlacementSearch::lower_bound() const {
  if (!all_listed_) return {work_bound(candidates_.front().request), "work"};
  const auto lowest =
      std::min_element(candidates_.begin(), candidates_.end(),
                       [](const Candidate& a, const Candidate& b) { return a.bound < b.bound; });
  if (best_ && lowest->bound >= candidates_[*best_].value)
    return {candidates_[*best_].value, candidates_[*best_].bound_method};
  return {lowest->bound, lowest->bound_method};
}

std::string PlacementSearch::open() const {
  if (!best_) return candidates_.front().open;
  if (lower_bound().first == best()->value) return {};
  if (asked_.request.max_steps && !late()) return kStepsLimit;
  if (late()) return kTimeLimit;
  for (const std::size_t index : undecided()) {
    if (!candidates_[index].open.empty()) return candidates_[index].open;
  }
  return kTimeLimit;
}

void PlacementSearch::tell() {
  if (!asked_.request.progress || !best_) return;
  const std::pair now(best()->value, lower_bound().first);
  if (now == told_) return;
  told_ = now;
  asked_.request.progress({*best()->schedule, now.first, now.second});
}

bool PlacementSearch::late() const {
  return Clock::now() >= deadline_ || (asked_.request.stopped && asked_.request.stopped());
}

/// Whether this part of the steps or of the time is used.
bool PlacementSearch::spent(double share) const {
  if (const auto& steps = asked_.request.max_steps) {
    // A look counts as a step, so that looks end that need none.
    return static_cast<double>(steps_ + looks_) >= share * static_cast<double>(*steps);
  }
  return Clock::now() >= start_ + std::chrono::duration_cast<Clock::duration>((deadline_ - start_) * share);
}

Clock::time_point PlacementSearch::within(double share) const {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>((deadline_ - Clock::now()) * share);
}

}  // namespace ppsim::verifier::synthesis
