#include "synthesis/orders/order_search.hpp"

#include <algorithm>
#include <array>

namespace ppsim::verifier::synthesis {
namespace {

constexpr std::int64_t kLongestWalk = 2'000'000;
constexpr std::int64_t kFirstSteps = 12;  // of the first walk, for each task
// The extra cost that a walk accepts at first, in mean durations, one for each walk in turn; a makespan that
// is longer by one costs four.
constexpr std::array<Slot, 4> kHeats = {4, 0, 16, 48};

}  // namespace

OrderSearch::OrderSearch(const Shop& shop, std::uint64_t seed)
    : shop_(shop), random_(seed), length_(kFirstSteps * shop.tasks()) {}

bool OrderSearch::better(const TaskRows& rows, RowsValue value) {
  if (!best_.empty() && value >= value_) return false;
  best_ = rows;
  value_ = value;
  return true;
}

bool OrderSearch::offer(const TaskRows& rows) {
  TimedRows timed(shop_);
  if (!timed.assign(rows)) return false;
  better(rows, timed.value());
  return true;
}

void OrderSearch::make_lists() {
  for (const ListRules& rules : simple_rules(shop_)) {
    if (const auto rows = list_rows(shop_, rules)) offer(*rows);
  }
}

Slot OrderSearch::usual_duration() const {
  Slot sum = 0;
  for (const Shop::Strand& strand : shop_.strands) sum += strand.duration;
  return std::max<Slot>(1, sum / static_cast<Slot>(shop_.strands.size()));
}

bool OrderSearch::run(Slot enough, Effort& effort, const RowsSink& found) {
  while (!best_.empty() && value_.objective > enough && !effort.over()) {
    if (!round(enough, effort, found)) return false;
  }
  return true;
}

bool OrderSearch::round(Slot enough, Effort& effort, const RowsSink& found) {
  const Slot duration = usual_duration();
  const Slot heat = duration * kHeats[rounds_ % kHeats.size()];
  const auto improve = [&](const TaskRows& rows, RowsValue value, const char* method) {
    const Slot before = value_.objective;
    return !better(rows, value) || value.objective == before || found(best_, method);
  };
  Walk near(shop_, random_());
  near.begin(best_);
  near.go(length_, heat, enough, effort);
  if (!improve(near.best(), near.value(), "walk")) return false;

  KeySearch lists(shop_, random_());
  rounds_ % 2 == 0 ? lists.begin(best_) : lists.begin_steady();
  lists.go(length_ / KeySearch::kListSteps, duration, enough, effort);
  if (lists.found()) {
    if (!improve(lists.best(), lists.value(), "lists")) return false;
    Walk far(shop_, random_());
    far.begin(lists.best());
    far.go(length_, heat, enough, effort);
    if (!improve(far.best(), far.value(), "lists and walk")) return false;
  }
  length_ = std::min(kLongestWalk, length_ * 5 / 4);
  ++rounds_;
  return true;
}

}  // namespace ppsim::verifier::synthesis
