#include "synthesis/orders/list_rows.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace ppsim::verifier::synthesis {
namespace {

constexpr Slot kNever = std::numeric_limits<Slot>::max();

ListRules open_rules(const Shop& shop) {
  return {.keys = std::vector<Slot>(as_size(shop.tasks()), 0),
          .most = std::vector<int>(as_size(shop.model.stages()), shop.microbatches)};
}

class Lister {
 public:
  Lister(const Shop& shop, const ListRules& rules)
      : shop_(shop),
        rules_(rules),
        next_(shop.strands.size(), 0),
        ends_(as_size(shop.tasks()), kNever),
        states_(shop.capacity.size()),
        rows_(shop.capacity.size()) {}

  std::optional<TaskRows> run() {
    for (int r = 0; r < shop_.ranks(); ++r) choose(r);
    for (int left = shop_.tasks(); left > 0; --left) {
      const auto first = std::ranges::min_element(states_, {}, &State::start);
      if (first->start == kNever) return std::nullopt;
      start(static_cast<int>(first - states_.begin()));
    }
    return std::move(rows_);
  }

 private:
  struct State {
    Slot free = 0;
    Bytes held = 0;
    int chosen = -1;  ///< strand
    Slot start = kNever;
  };

  [[nodiscard]] int next(int strand) const { return next_[as_size(strand)]; }
  [[nodiscard]] const Shop::Strand& strand(int number) const { return shop_.strands[as_size(number)]; }
  [[nodiscard]] int phases() const { return shop_.model.phases(); }

  /// When the next task of a strand can start, but for the room; kNever where that is not known yet.
  [[nodiscard]] Slot arrival(int number) const {
    const int microbatch = next(number);
    const Shop::Strand& about = strand(number);
    if (microbatch == shop_.microbatches || out_of_turn(about)) return kNever;
    if (about.source < 0) return 0;
    const Slot end = ends_[as_size(about.source * shop_.microbatches + microbatch)];
    return end == kNever ? kNever : end + about.lag;
  }

  /// Whether the order that is kept has the other one of F and I next.
  [[nodiscard]] bool out_of_turn(const Shop::Strand& about) const {
    if (shop_.model.kept_order().empty() || about.phase > 1) return false;
    const int forward = about.stage * phases();
    const std::vector<bool>& order = shop_.model.kept_order()[as_size(about.rank)];
    return order[as_size(next(forward) + next(forward + 1))] != (about.phase == 0);
  }

  /// A stage's room for a microbatch between F and I.
  [[nodiscard]] Bytes between(int stage) const {
    const Shop::Strand& forward = strand(stage * phases());
    return forward.take - forward.give;
  }

  [[nodiscard]] bool allowed(int rank, int number) const {
    const Shop::Strand& about = strand(number);
    const State& state = states_[as_size(rank)];
    const Bytes capacity = shop_.capacity[as_size(rank)];
    // A W that could run can always run.
    const bool last = about.phase + 1 == phases();
    const Bytes spare = last ? 0 : shop_.weight_room[as_size(rank)];
    if (state.held + about.take + spare > capacity) return false;
    if (about.phase > 0) return true;
    const int live = next(number) - next(number + phases() - 1);
    return live < rules_.most[as_size(about.stage)] && leaves_way_out(rank, number);
  }

  /// Whether with one more F the microbatches can be finished one after the other, W that could run at once
  /// first: of the oldest all stages must find room beside what the younger ones hold.
  [[nodiscard]] bool leaves_way_out(int rank, int number) const {
    int oldest = shop_.microbatches;
    int youngest = 0;
    for (const int stage : shop_.model.stages_of(rank)) {
      oldest = std::min(oldest, next(stage * phases() + 1));
      youngest = std::max(youngest, begun(stage, number));
    }
    const Bytes room = shop_.capacity[as_size(rank)] - shop_.backward_room[as_size(rank)];
    for (int microbatch = oldest; microbatch < youngest; ++microbatch) {
      Bytes needed = 0;
      for (const int stage : shop_.model.stages_of(rank)) {
        const int first = std::max(next(stage * phases() + 1), microbatch);
        needed += (std::max(begun(stage, number), microbatch + 1) - first) * between(stage);
      }
      if (needed > room) return false;
    }
    return true;
  }

  /// Microbatches whose F of a stage has started, with one more of the strand `number`.
  [[nodiscard]] int begun(int stage, int number) const {
    const int forward = stage * phases();
    return next(forward) + (forward == number ? 1 : 0);
  }

  void choose(int rank) {
    State& state = states_[as_size(rank)];
    Slot first = kNever;
    arrivals_.clear();
    for (const int number : shop_.strands_of[as_size(rank)]) {
      Slot start = arrival(number);
      if (start != kNever) start = allowed(rank, number) ? std::max(start, state.free) : kNever;
      arrivals_.push_back(start);
      first = std::min(first, start);
    }
    state.start = kNever;
    if (first == kNever) return;
    Slot best = 0;
    const std::vector<int>& strands = shop_.strands_of[as_size(rank)];
    for (std::size_t i = 0; i < strands.size(); ++i) {
      if (arrivals_[i] == kNever || arrivals_[i] - first > rules_.max_wait) continue;
      const Slot key = rules_.keys[as_size(strands[i] * shop_.microbatches + next(strands[i]))];
      if (state.start != kNever && key >= best) continue;
      best = key;
      state.chosen = strands[i];
      state.start = arrivals_[i];
    }
  }

  void start(int rank) {
    State& state = states_[as_size(rank)];
    const Shop::Strand& about = strand(state.chosen);
    const int microbatch = next_[as_size(state.chosen)]++;
    const int task = state.chosen * shop_.microbatches + microbatch;
    const Slot end = state.start + about.duration;
    ends_[as_size(task)] = end;
    rows_[as_size(rank)].push_back(task);
    state.free = end;
    state.held += about.take - about.give;
    choose(rank);
    if (about.reader >= 0) choose(strand(about.reader).rank);
  }

  const Shop& shop_;
  const ListRules& rules_;
  std::vector<int> next_;      // by strand: the microbatch
  std::vector<Slot> ends_;     // by task
  std::vector<State> states_;  // by rank
  std::vector<Slot> arrivals_;
  TaskRows rows_;
};

}  // namespace

ListRules steady_rules(const Shop& shop) {
  ListRules rules = open_rules(shop);
  const Slot period = *std::ranges::max_element(shop.work) / shop.microbatches;
  std::vector<Slot> first(shop.strands.size(), 0);
  for (const int task : shop.model.order()) {
    if (task % shop.microbatches != 0) continue;
    const Shop::Strand& strand = shop.strand_of(task);
    Slot& at = first[as_size(shop.model.strand_of(task))];
    if (strand.source >= 0) {
      const auto source = as_size(strand.source);
      at = first[source] + shop.strands[source].duration + strand.lag;
    }
    for (int i = 0; i < shop.microbatches; ++i) rules.keys[as_size(task + i)] = at + i * period;
  }
  return rules;
}

std::vector<ListRules> simple_rules(const Shop& shop) {
  std::vector<ListRules> all;
  std::vector<int> preference(as_size(shop.model.phases()));
  std::iota(preference.begin(), preference.end(), 0);
  do {
    for (const bool last_first : {true, false}) {
      ListRules rules = open_rules(shop);
      for (int task = 0; task < shop.tasks(); ++task) {
        const Shop::Strand& strand = shop.strand_of(task);
        const auto place = std::ranges::find(preference, strand.phase) - preference.begin();
        rules.keys[as_size(task)] =
            place * shop.model.stages() + (last_first ? shop.model.stages() - strand.stage : strand.stage);
      }
      all.push_back(std::move(rules));
      if (shop.model.one_stage_each()) break;
    }
  } while (std::ranges::next_permutation(preference).found);
  all.push_back(steady_rules(shop));
  return all;
}

std::optional<TaskRows> list_rows(const Shop& shop, const ListRules& rules) {
  return Lister(shop, rules).run();
}

}  // namespace ppsim::verifier::synthesis
