#include "greedy_order.hpp"

#include <algorithm>

#include "ppsim/core/ir/ids.hpp"

namespace ppsim::schedules {
namespace {

constexpr std::int64_t kActivation = 100;

class Greedy {
 public:
  Greedy(const GreedyProblem& problem, const GreedyRules& rules)
      : problem_(problem),
        rules_(rules),
        states_(problem.ranks.size()),
        rows_(problem.ranks.size()),
        forward_ends_(problem.ranks.size() * as_size(problem.microbatches)) {
    for (auto& row : rows_) row.reserve(3 * as_size(problem.microbatches));
  }

  GreedyOrder order() {
    warm_up();
    for (int i = 1; i < problem_.microbatches; ++i) {
      choose_forwards();
      for (std::size_t r = 0; r < states_.size(); ++r) place_forward(r);
      for (std::size_t r = states_.size(); r-- > 0;) place_input(r);
    }
    GreedyOrder result;
    for (std::size_t r = 0; r < states_.size(); ++r) {
      while (states_[r].weights < problem_.microbatches) weight(r);
      result.span = std::max(result.span, states_[r].free - states_[r].start);
    }
    result.rows = std::move(rows_);
    return result;
  }

 private:
  using Rank = GreedyProblem::Rank;
  struct State {
    int forwards = 0;
    int inputs = 0;
    int weights = 0;
    std::int64_t memory = 0;
    Nanoseconds start = 0;
    Nanoseconds free = 0;
    Nanoseconds waited = 0;     ///< between actions
    Nanoseconds input_end = 0;  ///< of the latest I
    bool forward_next = false;
    [[nodiscard]] bool has_weight() const { return weights < inputs; }
  };

  [[nodiscard]] bool last(std::size_t r) const { return r + 1 == states_.size(); }
  Nanoseconds& forward_end(std::size_t r, int microbatch) {
    return forward_ends_[r * as_size(problem_.microbatches) + as_size(microbatch)];
  }
  /// When the input of a rank's next F or I has arrived.
  Nanoseconds forward_arrival(std::size_t r) {
    if (r == 0) return 0;
    return forward_end(r - 1, states_[r].forwards) + problem_.ranks[r].from_above;
  }
  Nanoseconds input_arrival(std::size_t r) {
    return last(r) ? 0 : states_[r + 1].input_end + problem_.ranks[r].from_below;
  }

  void wait_until(State& state, Nanoseconds arrival) {
    if (arrival <= state.free) return;
    state.waited += arrival - state.free;
    longest_wait_ = std::max(longest_wait_, state.waited);
    state.free = arrival;
  }

  void forward(std::size_t r) {
    State& state = states_[r];
    const Nanoseconds arrival = forward_arrival(r);
    if (state.forwards == 0) {
      state.start = state.free = arrival;
    } else {
      wait_until(state, arrival);
    }
    state.free += problem_.ranks[r].forward;
    forward_end(r, state.forwards++) = state.free;
    state.memory += kActivation;
    rows_[r].push_back(OpKind::forward);
  }

  void input(std::size_t r) {
    State& state = states_[r];
    wait_until(state, input_arrival(r));
    state.free += problem_.ranks[r].input;
    state.input_end = state.free;
    state.memory -= kActivation - problem_.kept;
    ++state.inputs;
    rows_[r].push_back(OpKind::backward_input);
  }

  void weight(std::size_t r) {
    State& state = states_[r];
    state.free += problem_.ranks[r].weight;
    state.memory -= problem_.kept;
    ++state.weights;
    rows_[r].push_back(OpKind::backward_weight);
  }

  /// Spends the time until an arrival on W; a last one that outlasts it only where waiting would make this
  /// the rank that waits longest, or where the rules say so.
  void fill_until(std::size_t r, Nanoseconds arrival) {
    State& state = states_[r];
    while (state.has_weight() && state.free + problem_.ranks[r].weight <= arrival) weight(r);
    if (!state.has_weight() || state.free >= arrival) return;
    if (rules_.fill_gaps || arrival - state.free > longest_wait_ - state.waited) weight(r);
  }

  /// F that a rank runs after its first one, until the first I arrives.
  int forwards_before(std::size_t r, Nanoseconds arrival) {
    const Nanoseconds forward = problem_.ranks[r].forward;
    const auto most = static_cast<int>(
        std::min<std::int64_t>(problem_.microbatches - 1, (problem_.limit - kActivation) / kActivation));
    Nanoseconds end = states_[r].free;
    int count = 0;
    while (count < most && (rules_.short_warmup ? end + forward <= arrival : end < arrival)) {
      end += forward;
      ++count;
    }
    return count;
  }

  std::vector<int> warmup_forwards() {
    std::vector<int> more(states_.size(), 0);
    Nanoseconds end = states_.back().free + problem_.ranks.back().input;
    for (std::size_t r = states_.size() - 1; r-- > 0;) {
      const Nanoseconds arrival = end + problem_.ranks[r].from_below;
      more[r] = forwards_before(r, arrival);
      const Nanoseconds free = states_[r].free + more[r] * problem_.ranks[r].forward;
      end = std::max(free, arrival) + problem_.ranks[r].input;
    }
    // Each rank runs fewer than the one above, unless both run all there are.
    for (std::size_t r = 1; r < states_.size(); ++r) {
      const bool all = more[r - 1] == problem_.microbatches - 1;
      if (!(all && more[r] == more[r - 1])) more[r] = std::min(more[r], std::max(0, more[r - 1] - 1));
    }
    return more;
  }

  void warm_up() {
    for (std::size_t r = 0; r < states_.size(); ++r) forward(r);
    const std::vector<int> more = warmup_forwards();
    for (std::size_t r = 0; r < states_.size(); ++r) {
      for (int i = 0; i < more[r]; ++i) forward(r);
    }
    for (std::size_t r = states_.size(); r-- > 0;) input(r);
  }

  /// Whether a rank that is at least two F ahead of the next lets the next F wait for its next I.
  bool lets_forward_wait(std::size_t r) const {
    if (!rules_.prefer_backward || last(r)) return false;
    const State& state = states_[r];
    const State& next = states_[r + 1];
    if (state.forwards < next.forwards + 2) return false;
    const Rank& below = problem_.ranks[r + 1];
    const Nanoseconds arrival = next.free + below.forward + below.input + problem_.ranks[r].from_below;
    if (state.free >= arrival) return true;
    const Nanoseconds end =
        state.free + problem_.ranks[r].forward + weights_needed(state) * problem_.ranks[r].weight;
    return end > arrival && arrival - state.free <= longest_wait_ - state.waited;
  }

  /// W that must free memory for an F.
  [[nodiscard]] int weights_needed(const State& state) const {
    int count = 0;
    std::int64_t memory = state.memory + kActivation;
    for (; memory > problem_.limit && state.weights + count < state.inputs; ++count) memory -= problem_.kept;
    return count;
  }

  /// An F waits on all ranks above one that lets it wait.
  void choose_forwards() {
    bool below = true;
    for (std::size_t r = states_.size(); r-- > 0;) {
      below = below && states_[r].forwards < problem_.microbatches && !lets_forward_wait(r);
      states_[r].forward_next = below;
    }
  }

  void place_forward(std::size_t r) {
    State& state = states_[r];
    if (!state.forward_next) return;
    while (state.memory + kActivation > problem_.limit) weight(r);
    if (r > 0) fill_until(r, forward_arrival(r));
    forward(r);
  }

  void place_input(std::size_t r) {
    if (!last(r)) fill_until(r, input_arrival(r));
    if (r == 0 && states_[0].forwards == problem_.microbatches) {
      while (states_[0].has_weight()) weight(0);
    }
    input(r);
  }

  const GreedyProblem& problem_;
  GreedyRules rules_;
  std::vector<State> states_;
  std::vector<std::vector<OpKind>> rows_;
  std::vector<Nanoseconds> forward_ends_;
  Nanoseconds longest_wait_ = 0;
};

}  // namespace

GreedyOrder greedy_order(const GreedyProblem& problem, const GreedyRules& rules) {
  return Greedy(problem, rules).order();
}

}  // namespace ppsim::schedules
