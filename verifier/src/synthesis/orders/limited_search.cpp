#include "synthesis/orders/limited_search.hpp"

#include <algorithm>
#include <limits>

namespace ppsim::verifier::synthesis {
namespace {

constexpr int kRooms = 8;  // sizes of rooms that are tried for a first list

}  // namespace

LimitedSearch::LimitedSearch(const SynthesisRequest& request, const ChainModel& model,
                             const Relaxation& relaxation, Incumbent& incumbent, std::function<void()> told)
    : request_(request),
      model_(model),
      relaxation_(relaxation),
      incumbent_(incumbent),
      told_(std::move(told)),
      random_(request.seed),
      rooms_(usual_rooms(request)) {}

bool LimitedSearch::reached(Slot enough) const {
  return !incumbent_.empty() && incumbent_.value() <= enough * model_.unit();
}

bool LimitedSearch::take(const TaskRows& rows, const char* method) {
  over_ = incumbent_.offer(rows, {method, {}});
  for (std::size_t r = 0; r < over_.size(); ++r) rooms_.capacity[r] -= over_[r];
  if (over_.empty()) told_();
  return over_.empty();
}

void LimitedSearch::make_lists(Slot enough) {
  bool all_fit = false;
  for (int i = 0; i < kRooms && !all_fit && !reached(enough); ++i) {
    const Shop shop(model_, relaxation_, rooms_, request_.objective);
    all_fit = true;
    for (const ListRules& rules : simple_rules(shop)) {
      const auto rows = list_rows(shop, rules);
      if (rows) all_fit = take(*rows, "greedy") && all_fit;
      if (!all_fit || reached(enough)) break;
    }
  }
  if (!incumbent_.empty()) return;
  Rooms widest = rooms_;
  for (Bytes& capacity : widest.capacity) capacity = std::numeric_limits<Bytes>::max() / 2;
  const Shop shop(model_, relaxation_, widest, request_.objective);
  ListRules rules = steady_rules(shop);
  std::ranges::fill(rules.most, 1);
  if (const auto rows = list_rows(shop, rules)) take(*rows, "greedy");
}

std::string LimitedSearch::why_none() const {
  for (std::size_t r = 0; r < over_.size(); ++r) {
    if (over_[r] == 0) continue;
    return "none was found: with one microbatch after the other rank " + std::to_string(r) + " needs " +
           std::to_string(request_.bytes->per_rank + over_[r]) + " bytes in the worst timing, the limit is " +
           std::to_string(request_.bytes->per_rank);
  }
  return "none was found";
}

/// Enlarges estimated capacities until the incumbent fits, which has been proved to fit.
void LimitedSearch::make_room_for_incumbent() {
  if (!request_.bytes || incumbent_.empty()) return;
  const TaskRows rows = incumbent_.rows();
  for (std::size_t r = 0; r < rows.size(); ++r) {
    Bytes held = 0;
    for (const int task : rows[r]) {
      const auto strand = as_size(model_.strand_of(task));
      held += rooms_.take[strand];
      rooms_.capacity[r] = std::max(rooms_.capacity[r], held);
      held -= rooms_.give[strand];
    }
  }
}

/// Returns: whether there is something to start from.
bool LimitedSearch::begin() {
  do {
    orders_.reset();
    shop_.emplace(model_, relaxation_, rooms_, request_.objective);
    orders_.emplace(*shop_, random_());
    if (!incumbent_.empty() && orders_->offer(incumbent_.rows())) return true;
    orders_->make_lists();
    if (orders_->empty()) return false;
  } while (!take(orders_->best(), "greedy"));
  return true;
}

void LimitedSearch::run(Slot enough, Effort& effort) {
  if (!orders_) {
    make_room_for_incumbent();
    if (!begin()) return;
  }
  while (!effort.over() && !reached(enough)) {
    const bool taken = orders_->run(
        enough, effort, [&](const TaskRows& rows, const char* method) { return take(rows, method); });
    if (!taken && !begin()) return;
  }
}

}  // namespace ppsim::verifier::synthesis
