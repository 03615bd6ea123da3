#include "synthesis/placement_search.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "limits.hpp"
#include "ppsim/core/ir/units.hpp"

namespace ppsim::verifier::synthesis {
namespace {

constexpr std::size_t kMaxListed = 2'000;         // placements that are all searched
constexpr std::size_t kFinalists = 32;            // placements that are searched longer where not all are
constexpr std::int64_t kStepsPerLook = 500;       // of the first look at a neighbour
constexpr std::int64_t kStepsPerRound = 100'000;  // of a placement, where the time suffices
constexpr double kNeighbourShare = 0.5;           // of steps or time, for going from neighbour to neighbour
constexpr double kSearchShare = 0.5;              // of the time, before what is left is decided

/// The time of F, I and W, or of F and B, of a microbatch on a stage.
Nanoseconds work_of_stage(const SynthesisRequest& request, int stage) {
  Nanoseconds work = 0;
  for (const OpKind kind : phases_of(request.backward))
    work = checked_add(work, request.costs({kind, stage, -1, 0}));
  return work;
}

/// No rank of the busiest placement works less than all ranks do in the mean.
Nanoseconds mean_work(const SynthesisRequest& request, const std::vector<Nanoseconds>& of_stages) {
  Nanoseconds work = 0;
  for (const Nanoseconds of_stage : of_stages) work = checked_add(work, of_stage);
  return checked_add(checked_multiply(work, request.microbatches), request.ranks - 1) / request.ranks;
}

Nanoseconds work_bound(const SynthesisRequest& request) {
  std::vector<Nanoseconds> work;
  for (int s = 0; s < static_cast<int>(request.placement.size()); ++s)
    work.push_back(work_of_stage(request, s));
  return mean_work(request, work);
}

/// The costs of the stages' computation and of transfers between them, without SEND_A and RECV_A.
std::map<CostClass, Nanoseconds> costs_of_chain(const CostTable& costs) {
  std::map<CostClass, Nanoseconds> result;
  for (const auto& [key, cost] : costs.entries()) {
    if (key.kind != OpKind::send_activation && key.kind != OpKind::recv_activation) result.emplace(key, cost);
  }
  return result;
}

}  // namespace

PlacementSearch::PlacementSearch(const FreePlacement& asked, Clock::time_point deadline)
    : asked_(asked), deadline_(deadline), random_(asked.request.seed) {}

Expected<SynthesisRequest> PlacementSearch::bound(Placement placement) const {
  SynthesisRequest request = asked_.request;
  request.placement = std::move(placement);
  request.progress = {};
  PPSIM_RETURN_IF_ERROR(asked_.bind(request));
  return request;
}

/// Costs of a loop and of the same loop one rank further differ where ranks share nodes with some and not
/// with others: then placements with other numbers are not the same, and bounds of one do not hold for them.
Expected<void> PlacementSearch::check_numbers() const {
  Placement further = loop_placement(asked_.request.ranks, asked_.chunks);
  for (RankId& rank : further) rank = RankId((rank.value() + 1) % asked_.request.ranks);
  PPSIM_ASSIGN_OR_RETURN(const auto one, bound(loop_placement(asked_.request.ranks, asked_.chunks)));
  PPSIM_ASSIGN_OR_RETURN(const auto other, bound(std::move(further)));
  if (costs_of_chain(one.costs) == costs_of_chain(other.costs)) return {};
  return make_error(ErrorCode::bad_argument, "a free placement counts all ranks as alike",
                    {.found = "transfers that depend on which ranks share a node",
                     .expected = "all ranks on one node, each on its own, or a placement that is given"});
}

/// A stage may take longer where one next to it is on another rank, as where sends block. In a loop both are,
/// and in blocks with all shifts there is each other case.
Expected<void> PlacementSearch::bound_work() {
  const int ranks = asked_.request.ranks;
  std::vector<Placement> placements = {loop_placement(ranks, asked_.chunks)};
  for (int shift = 0; shift < asked_.chunks; ++shift)
    placements.push_back(placement_of_blocks(ranks, asked_.chunks, shift));
  std::vector<Nanoseconds> least(placements.front().size(), std::numeric_limits<Nanoseconds>::max());
  for (Placement& placement : placements) {
    PPSIM_ASSIGN_OR_RETURN(const auto request, bound(std::move(placement)));
    for (std::size_t s = 0; s < least.size(); ++s)
      least[s] = std::min(least[s], work_of_stage(request, static_cast<int>(s)));
  }
  min_work_ = mean_work(asked_.request, least);
  return {};
}

Expected<void> PlacementSearch::run() {
  PPSIM_RETURN_IF_ERROR(check_numbers());
  PPSIM_RETURN_IF_ERROR(bound_work());
  const std::vector<Placement> loop = {loop_placement(asked_.request.ranks, asked_.chunks)};
  for (const Placement& placement : asked_.first.empty() ? loop : asked_.first) {
    PPSIM_ASSIGN_OR_RETURN(const std::size_t index, add(placement));
    explore(index, 0, deadline_);
    // Every placement has as many stages on each rank, so activations are too many on all.
    if (!candidates_[index].request.bytes && candidates_[index].impossible) return {};
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
  PPSIM_ASSIGN_OR_RETURN(auto request, bound(place->first));
  PPSIM_RETURN_IF_ERROR(check_request(request));
  const Nanoseconds work = work_bound(request);
  candidates_.push_back({.request = std::move(request), .bound = work});
  return place->second;
}

void PlacementSearch::explore(std::size_t index, std::optional<std::int64_t> steps,
                              Clock::time_point deadline) {
  Candidate& candidate = candidates_[index];
  if (candidate.impossible) return;
  if (!std::exchange(candidate.explored, true)) ++explored_;
  ++looks_;
  candidate.open = no_room(candidate.request);
  candidate.impossible = !candidate.open.empty();
  if (candidate.impossible) return;
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
  for (const Placement& placement : placements) {
    if (late()) return {};
    PPSIM_RETURN_IF_ERROR(add(placement));
  }
  all_listed_ = true;
  for (std::size_t index = known; index < candidates_.size() && !late(); ++index)
    explore(index, 0, deadline_);
  return {};
}

/// Climbs to a placement that no exchange of two stages improves, then starts again: near the best one, or
/// from a random one while no schedule was found.
Expected<void> PlacementSearch::go_to_neighbours() {
  std::size_t at = best_.value_or(0);
  while (!late() && !spent(kNeighbourShare) && !(best_ && best()->value == lower_bound().first)) {
    PPSIM_ASSIGN_OR_RETURN(const auto better, better_neighbour(at));
    if (better) {
      at = *better;
      continue;
    }
    PPSIM_ASSIGN_OR_RETURN(at, add(best_ ? moved(*best_) : shuffled()));
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

Placement PlacementSearch::shuffled() {
  Placement placement = candidates_.front().request.placement;
  std::shuffle(placement.begin(), placement.end(), random_);
  return placement;
}

std::vector<std::size_t> PlacementSearch::by_value() const {
  std::vector<std::size_t> order(candidates_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
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
    const Candidate& candidate = candidates_[index];
    if (!candidate.impossible && (!best_ || candidate.bound < candidates_[*best_].value))
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

/// Searches and decides the placements that may still beat the best, each like a given placement, and again
/// while a placement lacks nothing but time.
void PlacementSearch::decide() {
  std::set<std::size_t> given_up;
  const auto still_open = [&] {
    std::vector<std::size_t> open = undecided();
    std::erase_if(open, [&](std::size_t index) { return given_up.contains(index); });
    if (!all_listed_) open.resize(std::min(open.size(), kFinalists));
    return open;
  };
  for (std::vector<std::size_t> open = still_open(); !open.empty() && !late(); open = still_open()) {
    for (std::size_t i = 0; i < open.size() && !late(); ++i) {
      const Candidate& candidate = candidates_[open[i]];
      if (best_ && candidate.bound >= candidates_[*best_].value) continue;
      explore(open[i], std::nullopt, within(1.0 / static_cast<double>(open.size() - i)));
      if (!candidate.open.empty() && candidate.open != kTimeLimit) given_up.insert(open[i]);
    }
  }
}

std::pair<Nanoseconds, std::string> PlacementSearch::lower_bound() const {
  std::pair<Nanoseconds, std::string> work(min_work_, "work");
  if (!all_listed_) return work;
  const Candidate* lowest = nullptr;
  for (const Candidate& candidate : candidates_) {
    if (!candidate.impossible && (lowest == nullptr || candidate.bound < lowest->bound)) lowest = &candidate;
  }
  if (lowest == nullptr) return work;
  if (best_ && lowest->bound >= candidates_[*best_].value)
    return {candidates_[*best_].value, candidates_[*best_].bound_method};
  return {lowest->bound, lowest->bound_method};
}

NoSchedule PlacementSearch::none() const {
  const Candidate& first = candidates_.front();
  if (!first.request.bytes && first.impossible) return {first.open, true};
  if (all_listed_ && std::ranges::all_of(candidates_, &Candidate::impossible))
    return {"of all " + std::to_string(candidates_.size()) + " placements none has room; with the first, " +
                first.open,
            true};
  return {"none was found with " + std::to_string(explored_) + " placements; with the first, " + first.open};
}

std::string PlacementSearch::open() const {
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
