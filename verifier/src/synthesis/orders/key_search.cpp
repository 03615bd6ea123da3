#include "synthesis/orders/key_search.hpp"

#include <algorithm>

namespace ppsim::verifier::synthesis {
namespace {

Slot longest_duration(const Shop& shop) {
  return std::ranges::max_element(shop.strands, {}, &Shop::Strand::duration)->duration;
}

/// The most microbatches of each stage that rows have live.
std::vector<int> live_of(const Shop& shop, const TaskRows& rows) {
  const int last = shop.model.phases() - 1;
  std::vector<int> live(as_size(shop.model.stages()), 0);
  std::vector<int> most(live);
  for (const auto& row : rows) {
    for (const int task : row) {
      const Shop::Strand& strand = shop.strand_of(task);
      const auto stage = as_size(strand.stage);
      if (strand.phase == 0) most[stage] = std::max(most[stage], ++live[stage]);
      if (strand.phase == last) --live[stage];
    }
  }
  return most;
}

}  // namespace

void KeySearch::begin(const TaskRows& rows) {
  timed_.assign(rows);
  rules_.keys.resize(as_size(shop_.tasks()));
  for (int task = 0; task < shop_.tasks(); ++task) rules_.keys[as_size(task)] = timed_.start(task);
  rules_.max_wait = 0;
  rules_.most = live_of(shop_, rows);
  start_over();
}

void KeySearch::begin_steady() {
  rules_ = steady_rules(shop_);
  start_over();
}

void KeySearch::start_over() {
  listed_ = false;
  try_rules(rules_, 0);
}

void KeySearch::go(std::int64_t lists, Slot heat, Slot enough, Effort& effort) {
  for (std::int64_t i = 0; i < lists && effort.take(kListSteps); ++i) {
    if (found() && best_value_.objective <= enough) return;
    const double share = static_cast<double>(lists - i) / static_cast<double>(lists);
    ListRules changed = rules_;
    change(changed);
    if (try_rules(changed, static_cast<Slot>(static_cast<double>(heat) * share))) rules_ = std::move(changed);
  }
}

bool KeySearch::try_rules(const ListRules& rules, Slot heat) {
  const auto rows = list_rows(shop_, rules);
  if (!rows || !timed_.assign(*rows)) return false;
  const RowsValue value = timed_.value();
  const Slot accepted = now_ + (heat > 0 ? random_.below(heat + 1) : 0);
  if (listed_ && value.objective > accepted) return false;
  listed_ = true;
  now_ = value.objective;
  if (!found() || value < best_value_) {
    best_value_ = value;
    best_ = *rows;
  }
  return true;
}

/// Up to four durations in either direction.
Slot KeySearch::shift() {
  const Slot most = 4 * longest_duration(shop_);
  return random_.below(2 * most + 1) - most;
}

void KeySearch::change(ListRules& rules) {
  switch (random_.below(8)) {
    case 0:
    case 1:
    case 2:
      return shift_strand(
          rules, static_cast<int>(random_.below(static_cast<std::int64_t>(shop_.strands.size()))), shift());
    case 3:
    case 4:
      return shift_alike(rules);
    case 5:
      return shift_while(rules);
    case 6: {
      int& most = rules.most[as_size(random_.below(static_cast<std::int64_t>(rules.most.size())))];
      most = std::clamp(most + (random_.one_in(2) ? 1 : -1), 1, shop_.microbatches);
      return;
    }
    default:
      rules.max_wait = random_.one_in(2) ? 0 : random_.below(longest_duration(shop_));
  }
}

void KeySearch::shift_strand(ListRules& rules, int strand, Slot by) const {
  const auto begin = rules.keys.begin() + static_cast<std::ptrdiff_t>(strand) * shop_.microbatches;
  std::for_each(begin, begin + shop_.microbatches, [by](Slot& key) { key += by; });
}

/// The strands of one phase of the n-th stage of each rank, by what grows from rank to rank.
void KeySearch::shift_alike(ListRules& rules) {
  const auto stage = as_size(random_.below(static_cast<std::int64_t>(
      shop_.model.stages_of(static_cast<int>(random_.below(shop_.ranks()))).size())));
  const int phase = static_cast<int>(random_.below(shop_.model.phases()));
  const Slot first = shift();
  const Slot last = shift();
  for (int r = 0; r < shop_.ranks(); ++r) {
    const std::vector<int>& stages = shop_.model.stages_of(r);
    if (stage >= stages.size()) continue;
    const Slot by = first + (last - first) / std::max(1, shop_.ranks() - 1) * r;
    shift_strand(rules, shop_.model.strand(stages[stage], phase), by);
  }
}

/// Each task of a rank within a while by another time.
void KeySearch::shift_while(ListRules& rules) {
  const auto rank = as_size(random_.below(shop_.ranks()));
  const Slot begin = random_.below(std::max<Slot>(1, now_));
  const Slot end = begin + 16 * longest_duration(shop_);
  for (const int strand : shop_.strands_of[rank]) {
    for (int i = 0; i < shop_.microbatches; ++i) {
      Slot& key = rules.keys[as_size(strand) * as_size(shop_.microbatches) + as_size(i)];
      if (key >= begin && key < end) key += shift() / 2;
    }
  }
}

}  // namespace ppsim::verifier::synthesis
