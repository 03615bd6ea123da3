#include "synthesis/orders/walk.hpp"

#include <algorithm>

namespace ppsim::verifier::synthesis {
namespace {

constexpr int kAnywhere = 5;   // one in so many moves is not on a critical path
constexpr int kMaxPulls = 3;   // actions that make room for one that moves
constexpr int kLookAhead = 4;  // times the strands of a rank: how far off they may be

}  // namespace

void Walk::begin(const TaskRows& rows) {
  timed_.assign(rows);
  critical_is_known_ = false;
  if (!best_.empty() && best_value_ <= timed_.value()) return;
  best_ = rows;
  best_value_ = timed_.value();
}

void Walk::go(std::int64_t steps, Slot heat, Slot enough, Effort& effort) {
  for (std::int64_t i = 0; i < steps && best_value_.objective > enough && effort.take(); ++i) {
    const double share = static_cast<double>(steps - i) / static_cast<double>(steps);
    step(static_cast<Slot>(static_cast<double>(heat) * share));
  }
}

void Walk::step(Slot heat) {
  Change change;
  if (!propose(change)) return;
  const Slot now = cost(timed_.value());
  const Slot accepted = now + (heat > 0 ? random_.below(heat + 1) : 0);
  const auto value = timed_.attempt(change.rank, change.from, window_, accepted / kObjective);
  if (!value) return;
  if (cost(*value) > accepted) return timed_.undo();
  timed_.keep();
  critical_is_known_ = false;
  if (*value >= best_value_) return;
  best_value_ = *value;
  best_ = timed_.rows();
}

bool Walk::propose(Change& change) {
  if (!critical_is_known_) find_critical();
  int rank = 0;
  int place = 0;
  if (critical_.empty() || random_.one_in(kAnywhere)) {
    rank = static_cast<int>(random_.below(shop_.ranks()));
    place = static_cast<int>(random_.below(static_cast<std::int64_t>(timed_.row(rank).size())));
  } else {
    const int task = critical_[as_size(random_.below(static_cast<std::int64_t>(critical_.size())))];
    rank = shop_.strand_of(task).rank;
    place = timed_.place(task);
  }
  const int count = random_.step();
  if (random_.one_in(2)) return move_earlier(rank, place, count, change);
  return move_later(rank, std::max(0, place - 1), count, change);
}

bool Walk::move_earlier(int rank, int place, int count, Change& change) {
  const std::vector<int>& row = timed_.row(rank);
  const int task = row[as_size(place)];
  const Shop::Strand& strand = shop_.strand_of(task);
  int from = place;
  for (; from > 0 && count > 0; --from, --count) {
    const int other = row[as_size(from) - 1];
    const Shop::Strand& passed = shop_.strand_of(other);
    const bool same_microbatch = other % shop_.microbatches == task % shop_.microbatches;
    if (&passed == &strand || (same_microbatch && passed.stage == strand.stage)) break;
  }
  if (from == place) return false;
  window_.assign(1, task);
  window_.insert(window_.end(), row.begin() + from, row.begin() + place);
  change = {rank, from};
  return strand.take <= strand.give || make_room(change);
}

bool Walk::move_later(int rank, int place, int count, Change& change) {
  const std::vector<int>& row = timed_.row(rank);
  const int task = row[as_size(place)];
  const Shop::Strand& strand = shop_.strand_of(task);
  int to = place;
  for (; to + 1 < static_cast<int>(row.size()) && count > 0; ++to, --count) {
    const int other = row[as_size(to) + 1];
    const Shop::Strand& passed = shop_.strand_of(other);
    const bool same_microbatch = other % shop_.microbatches == task % shop_.microbatches;
    if (&passed == &strand || (same_microbatch && passed.stage == strand.stage)) break;
  }
  if (to == place) return false;
  window_.assign(row.begin() + place + 1, row.begin() + to + 1);
  window_.push_back(task);
  change = {rank, place};
  return true;
}

/// Where the window takes too much room, actions that give some back come before what takes it.
bool Walk::make_room(Change& change) {
  const std::vector<int>& row = timed_.row(change.rank);
  const Bytes capacity = shop_.capacity[as_size(change.rank)];
  const auto reach = kLookAhead * shop_.strands_of[as_size(change.rank)].size();
  int pulls = 0;
  Bytes held = timed_.held_before(change.rank, change.from);
  for (std::size_t i = 0; i < window_.size(); ++i) {
    const Shop::Strand& strand = shop_.strand_of(window_[i]);
    if (held + strand.take <= capacity) {
      held += strand.take - strand.give;
      continue;
    }
    if (++pulls > kMaxPulls) return false;
    std::size_t at = i + 1;
    for (;; ++at) {
      const std::size_t place = as_size(change.from) + at;
      if (at > i + reach || place >= row.size()) return false;
      if (at == window_.size()) window_.push_back(row[place]);
      const Shop::Strand& other = shop_.strand_of(window_[at]);
      if (other.give <= other.take) continue;
      const int source = window_[at] - shop_.microbatches;
      const bool can_start = timed_.place(source) < change.from ||
                             std::find(window_.begin(), window_.begin() + static_cast<std::ptrdiff_t>(i),
                                       source) != window_.begin() + static_cast<std::ptrdiff_t>(i);
      if (can_start) break;
    }
    const auto begin = window_.begin() + static_cast<std::ptrdiff_t>(i);
    const auto pulled = window_.begin() + static_cast<std::ptrdiff_t>(at);
    std::rotate(begin, pulled, pulled + 1);
    --i;
  }
  return true;
}

int Walk::critical_end() {
  int best = -1;
  Slot longest = -1;
  for (int r = 0; r < shop_.ranks(); ++r) {
    const std::vector<int>& row = timed_.row(r);
    const Slot begin = shop_.objective == Objective::makespan ? 0 : timed_.start(row.front());
    const Slot taken = timed_.end(row.back()) - begin;
    if (taken < longest || (taken == longest && random_.one_in(2))) continue;
    longest = taken;
    best = row.back();
  }
  return best;
}

void Walk::find_critical() {
  critical_.clear();
  critical_is_known_ = true;
  for (int task = critical_end();;) {
    const Shop::Strand& strand = shop_.strand_of(task);
    const Slot start = timed_.start(task);
    const int place = timed_.place(task);
    const int before = place > 0 ? timed_.row(strand.rank)[as_size(place) - 1] : -1;
    const int source =
        strand.source < 0 ? -1 : strand.source * shop_.microbatches + task % shop_.microbatches;
    const bool by_row = before >= 0 && timed_.end(before) == start;
    const bool by_source = source >= 0 && source != before && timed_.end(source) + strand.lag == start;
    if (!by_row && !by_source) return;
    const bool follows_row = by_row && (!by_source || random_.one_in(2));
    if (follows_row && source != before) critical_.push_back(task);
    task = follows_row ? before : source;
  }
}

}  // namespace ppsim::verifier::synthesis
