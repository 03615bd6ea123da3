#include "synthesis/orders/timed_rows.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace ppsim::verifier::synthesis {
namespace {

constexpr Slot kNoLimit = std::numeric_limits<Slot>::max() / 2;

}  // namespace

TimedRows::TimedRows(const Shop& shop)
    : shop_(shop),
      places_(as_size(shop.tasks()), 0),
      held_(shop.capacity.size()),
      ends_(as_size(shop.tasks()), 0),
      trial_ends_(ends_),
      done_(shop.capacity.size()),
      cursors_(shop.capacity.size()) {}

bool TimedRows::assign(const TaskRows& rows) {
  const TaskRows before = std::exchange(rows_, rows);
  bool good = true;
  for (int r = 0; r < shop_.ranks(); ++r) {
    const auto at = as_size(r);
    const auto count = static_cast<int>(rows_[at].size());
    held_[at].assign(rows_[at].size() + 1, 0);
    done_[at].assign(rows_[at].size() + 1, 0);
    put(r, 0, rows[at]);
    hold_again(r, 0, count);
    good = good && fits(r, 0, rows[at]);
    cursors_[at] = {0, 0, shop_.work[at], -1};
  }
  good = good && run(kNoLimit);
  if (good) {
    value_ = value_of_trial();
    ends_ = trial_ends_;
  } else if (!before.empty()) {
    assign(before);
  } else {
    rows_.clear();
  }
  return good;
}

bool TimedRows::fits(int rank, int from, std::span<const int> window) const {
  Bytes held = held_before(rank, from);
  const Bytes capacity = shop_.capacity[as_size(rank)];
  for (const int task : window) {
    const Shop::Strand& strand = shop_.strand_of(task);
    held += strand.take;
    if (held > capacity) return false;
    held -= strand.give;
  }
  return true;
}

void TimedRows::put(int rank, int from, std::span<const int> window) {
  std::vector<int>& row = rows_[as_size(rank)];
  for (std::size_t i = 0; i < window.size(); ++i) {
    const int place = from + static_cast<int>(i);
    row[as_size(place)] = window[i];
    places_[as_size(window[i])] = place;
  }
}

/// Updates the memory held and the work done before each place of a part of a row, from those before the
/// first.
void TimedRows::hold_again(int rank, int from, int count) {
  const auto r = as_size(rank);
  const int end = from + count;
  for (auto at = as_size(from); at < as_size(end); ++at) {
    const Shop::Strand& strand = shop_.strand_of(rows_[r][at]);
    held_[r][at + 1] = held_[r][at] + strand.take - strand.give;
    done_[r][at + 1] = done_[r][at] + strand.duration;
  }
}

/// Sets the cursors to the first tasks that can depend on a change.
void TimedRows::start_behind(int rank, int from) {
  const std::vector<int>& changed = row(rank);
  const Slot time = from == 0 ? 0 : end(changed[as_size(from) - 1]);
  for (int r = 0; r < shop_.ranks(); ++r) {
    const auto at = as_size(r);
    const std::vector<int>& row = rows_[at];
    int place = from;
    if (r != rank) {
      const auto first = std::ranges::lower_bound(row, time, {}, [&](int task) { return start(task); });
      place = static_cast<int>(first - row.begin());
    }
    Cursor& cursor = cursors_[at];
    cursor.place = place;
    cursor.free = place == 0 ? 0 : end(row[as_size(place) - 1]);
    cursor.left = shop_.work[at] - done_[at][as_size(place)];
    cursor.waits_for = -1;
  }
}

std::optional<RowsValue> TimedRows::attempt(int rank, int from, std::span<const int> window, Slot most) {
  if (!fits(rank, from, window)) return std::nullopt;
  start_behind(rank, from);
  const auto begin = rows_[as_size(rank)].begin() + from;
  before_trial_.assign(begin, begin + static_cast<std::ptrdiff_t>(window.size()));
  trial_rank_ = rank;
  trial_from_ = from;
  put(rank, from, window);
  std::ranges::copy(ends_, trial_ends_.begin());
  if (!run(most)) {
    undo();
    return std::nullopt;
  }
  trial_value_ = value_of_trial();
  if (trial_value_.objective > most) {
    undo();
    return std::nullopt;
  }
  return trial_value_;
}

void TimedRows::keep() {
  ends_.swap(trial_ends_);
  value_ = trial_value_;
  hold_again(trial_rank_, trial_from_, static_cast<int>(before_trial_.size()));
}

void TimedRows::undo() { put(trial_rank_, trial_from_, before_trial_); }

bool TimedRows::run(Slot most) {
  ready_.clear();
  for (int r = shop_.ranks(); r-- > 0;) ready_.push_back(r);
  while (!ready_.empty()) {
    const int rank = ready_.back();
    ready_.pop_back();
    if (!run_rank(rank, most)) return false;
  }
  return std::ranges::all_of(cursors_, [](const Cursor& cursor) { return cursor.left == 0; });
}

/// Times the tasks of a rank until one waits for a task without a time. Returns: false where it ends too
/// late.
bool TimedRows::run_rank(int rank, Slot most) {
  Cursor& cursor = cursors_[as_size(rank)];
  const std::vector<int>& row = this->row(rank);
  cursor.waits_for = -1;
  // A span may end later than it takes, by the start of its rank.
  const Slot latest = shop_.objective == Objective::makespan ? most : kNoLimit;
  for (; cursor.place < static_cast<int>(row.size()); ++cursor.place) {
    const int task = row[as_size(cursor.place)];
    const Shop::Strand& strand = shop_.strand_of(task);
    Slot start = cursor.free;
    if (strand.source >= 0) {
      const int source = strand.source * shop_.microbatches + task % shop_.microbatches;
      const int owner = shop_.strands[as_size(strand.source)].rank;
      if (place(source) >= cursors_[as_size(owner)].place) {
        cursor.waits_for = source;
        return true;
      }
      start = std::max(start, trial_ends_[as_size(source)] + strand.lag);
    }
    const Slot end = start + strand.duration;
    trial_ends_[as_size(task)] = end;
    cursor.free = end;
    cursor.left -= strand.duration;
    if (latest - cursor.left < end || most - shop_.tails[as_size(task)] < end) return false;
    if (strand.reader < 0) continue;
    const int reader = shop_.strands[as_size(strand.reader)].rank;
    if (cursors_[as_size(reader)].waits_for == task) {
      cursors_[as_size(reader)].waits_for = -1;
      ready_.push_back(reader);
    }
  }
  return true;
}

RowsValue TimedRows::value_of_trial() const {
  RowsValue value;
  for (int r = 0; r < shop_.ranks(); ++r) {
    const auto at = as_size(r);
    const Slot end = cursors_[at].free;
    const int first = rows_[at].front();
    const Slot start = trial_ends_[as_size(first)] - shop_.strand_of(first).duration;
    const Slot taken = shop_.objective == Objective::makespan ? end : end - start;
    value.objective = std::max(value.objective, taken);
    value.mean_end += taken / shop_.ranks();
  }
  return value;
}

}  // namespace ppsim::verifier::synthesis
