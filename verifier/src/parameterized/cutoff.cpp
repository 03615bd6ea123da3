#include "cutoff.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

namespace ppsim::verifier {
namespace {

constexpr std::size_t kMaxEvents = 2000;  // between all of which distances are looked for

using Edges = std::vector<std::vector<std::pair<std::size_t, std::int64_t>>>;

/// The largest distance from one event to any other; nothing where some cannot be reached.
std::optional<std::int64_t> farthest(const Edges& edges, const std::vector<std::size_t>& events,
                                     std::size_t from) {
  constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t> distance(edges.size(), kFar);
  using Item = std::pair<std::int64_t, std::size_t>;
  std::priority_queue<Item, std::vector<Item>, std::greater<>> open;
  distance[from] = 0;
  open.emplace(0, from);
  while (!open.empty()) {
    const auto [at, event] = open.top();
    open.pop();
    if (at > distance[event]) continue;
    for (const auto& [next, length] : edges[event]) {
      if (at + length >= distance[next]) continue;
      distance[next] = at + length;
      open.emplace(at + length, next);
    }
  }
  std::int64_t most = 0;
  for (const std::size_t event : events) most = std::max(most, distance[event]);
  if (most == kFar) return std::nullopt;
  return most;
}

/// Looks for how far from its ends everything has to be. In the names, a counter is `high` if it is above
/// gap_, and `low` if it is at most low_; `k` is the number of periods of the longer member.
class CutoffSearch {
 public:
  CutoffSearch(const PeriodicProgram& family, const SizeTable& sizes) : family_(family), sizes_(sizes) {}

  std::optional<Cutoff> run() {
    if (!has_known_counts() || !starts_one_by_one()) return std::nullopt;
    const auto spread = spread_of_counters();
    if (!spread || !look(Pass::gap)) return std::nullopt;
    low_ = gap_ + *spread + 1;  // one more is started than is complete
    min_ = family_.first + 1;
    if (!look(Pass::length)) return std::nullopt;
    return Cutoff{min_ - 1, growth()};
  }

 private:
  enum class Pass : std::uint8_t { gap, length };

  [[nodiscard]] const Series& series(int number) const { return family_.series[as_size(number)]; }
  [[nodiscard]] bool repeats(int number) const { return series(number).count.per_period == 1; }

  [[nodiscard]] bool has_known_counts() const {
    return std::ranges::all_of(family_.series, [](const Series& s) {
      return s.event >= 0 && (s.count.per_period == 0 || s.count.per_period == 1);
    });
  }

  [[nodiscard]] bool starts_one_by_one() const {
    std::vector<char> waits_for_itself(family_.series.size(), 0);
    for (const SeriesWait& w : family_.waits) {
      if (w.before == w.after && w.shift.per_period == 0 && w.shift.constant >= 0)
        waits_for_itself[as_size(w.after)] = 1;
    }
    return std::ranges::all_of(waits_for_itself, [](char waits) { return waits != 0; });
  }

  /// How far one counter of an event that repeats can be above another, in any state.
  [[nodiscard]] std::optional<std::int64_t> spread_of_counters() const {
    Edges edges(family_.events.size());
    for (const SeriesWait& w : family_.waits) add_edge(w, edges);
    for (const SeriesWait& w : family_.end_waits) add_edge(w, edges);
    std::vector<std::size_t> events;
    for (std::size_t e = 0; e < family_.events.size(); ++e) {
      if (repeats(family_.events[e].front())) events.push_back(e);
    }
    if (events.size() > kMaxEvents) return std::nullopt;
    std::int64_t spread = 0;
    for (const std::size_t event : events) {
      const auto most = farthest(edges, events, event);
      if (!most) return std::nullopt;
      spread = std::max(spread, *most);
    }
    return spread;
  }

  void add_edge(const SeriesWait& w, Edges& edges) const {
    if (!repeats(w.before) || !repeats(w.after) || w.shift.per_period < 0) return;
    // after <= before + length, also where before has come to its end or after has not begun.
    const std::int64_t length = std::max({std::int64_t{0}, 1 - w.shift.at(family_.first),
                                          series(w.after).count.constant - series(w.before).count.constant});
    edges[as_size(series(w.before).event)].emplace_back(as_size(series(w.after).event), length);
  }

  void need_gap(std::int64_t gap) { gap_ = std::max(gap_, gap); }
  void need_length(std::int64_t k) { min_ = std::max(min_, k); }

  /// Returns: whether everything can be followed.
  bool look(Pass pass) {
    if (pass == Pass::length) {
      for (const Series& s : family_.series) {
        if (s.count.per_period == 1) need_length(low_ - s.count.constant + 1);
      }
    }
    const auto wait = [&](const SeriesWait& w) { return look_at_wait(w, pass); };
    const auto tensor = [&](const TensorSeries& t) { return look_at_tensor(t, pass); };
    return std::ranges::all_of(family_.waits, wait) && std::ranges::all_of(family_.end_waits, wait) &&
           std::ranges::all_of(family_.tensors, tensor);
  }

  /// Whether what waits in a state still may where its counters stay (low) or go down by one (high). A wait
  /// for more instances with each period only weakens.
  bool look_at_wait(const SeriesWait& w, Pass pass) {
    const std::int64_t most = series(w.after).count.constant;
    if (pass == Pass::gap) {
      if (w.shift.per_period < 0) need_gap(most + w.shift.constant);
      if (w.shift.per_period == 0 && !repeats(w.after) && repeats(w.before))
        need_gap(most + w.shift.constant - 1);
    } else if (w.shift.per_period < 0) {
      need_length((repeats(w.after) ? low_ : most) + w.shift.constant);
    }
    return w.shift.per_period >= -1 && w.shift.per_period <= 1;
  }

  bool look_at_tensor(const TensorSeries& t, Pass pass) {
    if (sizes_(t.size_class) == 0) return true;
    if (t.count.per_period != 0 && t.count.per_period != 1) return false;
    const auto good = [&](const TensorSeries::Touch& touch) { return look_at_touch(t, touch, pass); };
    return std::ranges::all_of(t.writers, good) && std::ranges::all_of(t.users, good);
  }

  /// How many tensors have been touched is `instances + offset`, at least 0 and at most all. Low, that must
  /// stay; high, it must go down with the number of all of them.
  bool look_at_touch(const TensorSeries& t, const TensorSeries::Touch& touch, Pass pass) {
    const bool forward = touch.direction > 0;
    const AffineCount offset{(forward ? 0 : t.count.constant - 1) - touch.shift.constant,
                             (forward ? 0 : t.count.per_period) - touch.shift.per_period};
    const bool grows = t.count.per_period == 1;
    if (!repeats(touch.series)) return !grows && offset.per_period == 0;
    if (offset.per_period == 0) {
      if (pass == Pass::gap) need_gap((grows ? 0 : t.count.constant) - offset.constant);
      if (pass == Pass::length && grows) need_length(low_ + offset.constant - t.count.constant + 1);
      return true;
    }
    if (pass == Pass::length) need_length(low_ + offset.constant + 1);
    return !grows && offset.per_period == -1;
  }

  /// Low, there is one tensor less that exists from the start; high, one that lives to the end.
  [[nodiscard]] std::vector<Bytes> growth() const {
    std::vector<Bytes> low(as_size(family_.ranks), 0);
    std::vector<Bytes> high = low;
    for (const TensorSeries& t : family_.tensors) {
      if (t.count.per_period == 0) continue;
      if (t.writers.empty()) low[t.rank.index()] += sizes_(t.size_class);
      if (t.users.empty()) high[t.rank.index()] += sizes_(t.size_class);
    }
    for (std::size_t r = 0; r < low.size(); ++r) low[r] = std::max(low[r], high[r]);
    return low;
  }

  const PeriodicProgram& family_;
  const SizeTable& sizes_;
  std::int64_t gap_ = 0;
  std::int64_t low_ = 0;
  std::int64_t min_ = 0;
};

}  // namespace

std::optional<Cutoff> find_cutoff(const PeriodicProgram& family, const SizeTable& sizes) {
  return CutoffSearch(family, sizes).run();
}

}  // namespace ppsim::verifier
