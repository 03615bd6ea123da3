#include "support/all_states.hpp"

#include <algorithm>
#include <set>

namespace ppsim::test {
namespace {

/// The events so far.
struct State {
  std::vector<bool> started, complete;  ///< per instruction
  std::vector<bool> over;               ///< per instruction: the work of compute, copy and collectives
  std::vector<bool> out, received;      ///< per message

  friend auto operator<=>(const State&, const State&) = default;
};

class Explorer {
 public:
  Explorer(const Program& program, const ExecutionGraph& graph, const std::vector<Bytes>& sizes)
      : graph_(graph),
        table_(tensor_table(program)),
        sizes_(sizes),
        max_(static_cast<std::size_t>(program.pipeline().ranks()), 0) {}

  std::optional<std::vector<Bytes>> run(std::size_t limit) {
    const std::vector<bool> none(graph_.size(), false);
    const std::vector<bool> unsent(graph_.messages.size(), false);
    visit({none, none, none, unsent, unsent});
    while (!open_.empty()) {
      if (seen_.size() > limit) return std::nullopt;
      const State state = open_.back();
      open_.pop_back();
      expand(state);
    }
    return max_;
  }

 private:
  [[nodiscard]] static InstructionId id_of(std::size_t i) {
    return InstructionId(static_cast<std::int32_t>(i));
  }
  [[nodiscard]] static bool has(const std::vector<bool>& set, std::int32_t index) {
    return index < 0 || set[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] static bool has(const std::vector<bool>& set, InstructionId id) {
    return id.valid() && set[id.index()];
  }

  void expand(const State& state) {
    for (std::size_t i = 0; i < graph_.size(); ++i) {
      const bool works = graph_.messages_of(id_of(i)).empty();
      if (works && state.started[i] && !state.over[i] && all_have_started(state, graph_.match_of[i]))
        follow(state, &State::over, i);
    }
    for (std::size_t m = 0; m < graph_.messages.size(); ++m) {
      if (!state.out[m] && may_leave(state, graph_.messages[m])) follow(state, &State::out, m);
    }
  }

  /// Each member of a collective ends by itself once all have started.
  [[nodiscard]] bool all_have_started(const State& state, std::int32_t index) const {
    if (index < 0) return true;
    const auto& match = graph_.matches[static_cast<std::size_t>(index)];
    return match.complete && std::ranges::all_of(graph_.members_of(match),
                                                 [&](InstructionId id) { return has(state.started, id); });
  }

  [[nodiscard]] bool may_leave(const State& state, const Message& message) const {
    if (!has(state.started, message.send) || !has(state.out, message.previous)) return false;
    return graph_.capabilities.credits ? has(state.received, message.credit)
                                       : has(state.started, message.receive);
  }

  void follow(const State& state, std::vector<bool> State::*set, std::size_t index) {
    State next = state;
    (next.*set)[index] = true;
    visit(std::move(next));
  }

  /// Rounds: arrivals and completions, then starts; each counts.
  void visit(State state) {
    do {
      while (arrive(state)) {
      }
      complete(state);
      while (start(state)) {
      }
      count(state);
    } while (arrive(state));
    if (seen_.insert(state).second) open_.push_back(std::move(state));
  }

  bool arrive(State& state) const {
    bool moved = false;
    for (std::size_t m = 0; m < graph_.messages.size(); ++m) {
      const Message& message = graph_.messages[m];
      const bool arrives =
          state.out[m] && has(state.started, message.receive) && has(state.received, message.previous);
      if (!arrives || state.received[m]) continue;
      state.received[m] = true;
      moved = true;
    }
    return moved;
  }

  void complete(State& state) const {
    for (std::size_t i = 0; i < graph_.size(); ++i) {
      const auto messages = graph_.messages_of(id_of(i));
      const bool over = std::ranges::all_of(messages, [&](std::uint32_t m) {
        return graph_.messages[m].send == id_of(i) ? state.out[m] : state.received[m];
      });
      if (state.started[i] && over && (!messages.empty() || state.over[i])) state.complete[i] = true;
    }
  }

  bool start(State& state) const {
    bool moved = false;
    for (std::size_t i = 0; i < graph_.size(); ++i) {
      if (state.started[i] || graph_.waits_forever(id_of(i))) continue;
      const auto before = graph_.predecessors_of(id_of(i));
      if (!std::ranges::all_of(before, [&](InstructionId p) { return has(state.complete, p); })) continue;
      state.started[i] = true;
      moved = true;
    }
    return moved;
  }

  void count(const State& state) {
    std::vector<Bytes> now(max_.size(), 0);
    for (std::size_t t = 0; t < table_.tensors.size(); ++t) {
      const Tensor& tensor = table_.tensors[t];
      const bool born =
          tensor.from_start || std::ranges::any_of(table_.writers_of(tensor),
                                                   [&](InstructionId id) { return has(state.started, id); });
      const bool dead = !tensor.to_end && std::ranges::all_of(table_.users_of(tensor), [&](InstructionId id) {
        return has(state.complete, id);
      });
      if (born && !dead) now[tensor.rank.index()] += sizes_[t];
    }
    for (std::size_t r = 0; r < now.size(); ++r) max_[r] = std::max(max_[r], now[r]);
  }

  const ExecutionGraph& graph_;
  TensorTable table_;
  const std::vector<Bytes>& sizes_;
  std::vector<Bytes> max_;
  std::set<State> seen_;
  std::vector<State> open_;
};

}  // namespace

std::optional<std::vector<Bytes>> max_memory_of_all_states(const Program& program,
                                                           const ExecutionGraph& graph,
                                                           const std::vector<Bytes>& sizes,
                                                           std::size_t limit) {
  return Explorer(program, graph, sizes).run(limit);
}

}  // namespace ppsim::test
