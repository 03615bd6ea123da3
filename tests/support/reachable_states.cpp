#include "support/reachable_states.hpp"

#include <algorithm>
#include <bitset>
#include <map>
#include <unordered_set>

#include "support/program_reading.hpp"

namespace ppsim::test {
namespace {

/// The events that have happened: work done, messages out, members over with their collectives and, under a
/// residency limit, communication begun. Everything else that a state says follows from these.
constexpr std::size_t kMaxEvents = 256;
using Events = std::bitset<kMaxEvents>;
/// The events that must have happened; nothing: it never can.
using Condition = std::optional<Events>;

bool holds(const Condition& condition, const Events& state) {
  return condition && (*condition & ~state).none();
}
void also(Condition& condition, const Condition& other) {
  if (!condition || !other) {
    condition.reset();
  } else {
    *condition |= *other;
  }
}

/// Per operation and event, what must have happened.
class Conditions {
 public:
  Conditions(const ProgramReading& reading, bool rendezvous)
      : reading_(reading),
        rendezvous_(rendezvous),
        ready_(reading.operations.size()),
        state_(reading.operations.size(), Known::no) {}

  /// For the operation to be allowed to start, places aside.
  const Condition& ready(std::size_t i) {
    if (state_[i] == Known::no) {
      state_[i] = Known::pending;
      const ProgramReading::Operation& op = reading_.operations[i];
      Condition condition = op.never ? Condition() : Condition(Events());
      for (const std::size_t b : op.before) also(condition, complete(b));
      if (op.launched_after >= 0) also(condition, started(static_cast<std::size_t>(op.launched_after)));
      ready_[i] = condition;
      state_[i] = Known::yes;
    } else if (state_[i] == Known::pending) {
      ready_[i].reset();  // it waits for itself
    }
    return ready_[i];
  }

  Condition started(std::size_t i) {
    const int begin = reading_.operations[i].begin;
    return begin >= 0 ? Condition(event(begin)) : ready(i);
  }

  Condition complete(std::size_t i) {
    const ProgramReading::Operation& op = reading_.operations[i];
    Condition condition = ready(i);
    also(condition, started(i));
    if (op.event >= 0) also(condition, event(op.event));
    for (const std::size_t m : op.sends) also(condition, event(reading_.transfers[m].out));
    for (const std::size_t m : op.receives) {
      also(condition, rendezvous_ ? event(reading_.transfers[m].out) : received(m));
    }
    return condition;
  }

  /// For a message to go out.
  Condition out(const ProgramReading::Transfer& transfer) {
    if (transfer.send < 0 || (rendezvous_ && transfer.receive < 0)) return {};
    Condition condition = started(static_cast<std::size_t>(transfer.send));
    if (rendezvous_) also(condition, started(static_cast<std::size_t>(transfer.receive)));
    if (transfer.previous >= 0)
      also(condition, event(reading_.transfers[static_cast<std::size_t>(transfer.previous)].out));
    if (transfer.credit >= 0) also(condition, received(static_cast<std::size_t>(transfer.credit)));
    return condition;
  }

  /// For a message to be received, once it is out.
  Condition in(const ProgramReading::Transfer& transfer) {
    if (transfer.receive < 0 || transfer.send < 0) return {};
    Condition condition = event(transfer.out);
    also(condition, started(static_cast<std::size_t>(transfer.receive)));
    if (transfer.previous >= 0) also(condition, received(static_cast<std::size_t>(transfer.previous)));
    return condition;
  }

  /// For a member of a collective to end.
  Condition gathered(const ProgramReading::Gathering& gathering) {
    Condition condition = gathering.complete ? Condition(Events()) : Condition();
    for (const std::size_t member : gathering.members) also(condition, started(member));
    return condition;
  }

 private:
  enum class Known { no, pending, yes };

  static Condition event(int number) {
    Events events;
    events.set(static_cast<std::size_t>(number));
    return events;
  }

  Condition received(std::size_t m) {
    const ProgramReading::Transfer& transfer = reading_.transfers[m];
    return transfer.in >= 0 ? event(transfer.in) : in(transfer);
  }

  const ProgramReading& reading_;
  bool rendezvous_;
  std::vector<Condition> ready_;
  std::vector<Known> state_;
};

/// The states of one Program.
class Exploration {
 public:
  Exploration(const ProgramReading& reading, const TransportCapabilities& capabilities,
              const TensorTable& table, std::size_t ranks)
      : reading_(reading),
        residency_(capabilities.residency),
        table_(table),
        lifetimes_(ranks),
        live_(ranks) {
    Conditions conditions(reading, !capabilities.credits.has_value());
    may_happen_.resize(reading.events);
    for (const ProgramReading::Transfer& transfer : reading.transfers) {
      may_happen_[index(transfer.out)] = conditions.out(transfer);
      if (transfer.in >= 0) may_happen_[index(transfer.in)] = conditions.in(transfer);
    }
    for (const auto& [event, gathering] : reading.gatherings)
      may_happen_[index(event)] = conditions.gathered(gathering);
    for (std::size_t i = 0; i < reading.operations.size(); ++i) {
      const ProgramReading::Operation& op = reading.operations[i];
      if (!op.communicates) may_happen_[index(op.event)] = conditions.ready(i);
      ready_.push_back(conditions.ready(i));
      started_.push_back(conditions.started(i));
      complete_.push_back(conditions.complete(i));
    }
    read_lifetimes();
  }

  /// Returns: whether the limit sufficed.
  bool run(std::size_t limit, Reachable& result) {
    visit(Events());
    while (!open_.empty()) {
      if (seen_.size() > limit) return false;
      const Events state = open_.back();
      open_.pop_back();
      if (!expand(state) && !finished(state)) result.hangs = true;
    }
    result.states = seen_.size();
    result.live = std::move(live_);
    return true;
  }

 private:
  static std::size_t index(int number) { return static_cast<std::size_t>(number); }

  void visit(const Events& state) {
    if (!seen_.insert(state).second) return;
    open_.push_back(state);
    count(state);
  }

  bool follow(Events state, int event) {
    state.set(index(event));
    visit(state);
    return true;
  }

  /// Returns: whether there was a next state.
  bool expand(const Events& state) {
    bool moves = false;
    for (std::size_t i = 0; residency_ && i < ready_.size(); ++i) {
      const ProgramReading::Operation& op = reading_.operations[i];
      if (op.begin < 0 || state[index(op.begin)] || !holds(ready_[i], state)) continue;
      if (places_taken(op.rank, state) < *residency_) moves |= follow(state, op.begin);
    }
    for (std::size_t e = 0; e < may_happen_.size(); ++e) {
      if (!state[e] && holds(may_happen_[e], state)) moves |= follow(state, static_cast<int>(e));
    }
    return moves;
  }

  [[nodiscard]] int places_taken(RankId rank, const Events& state) const {
    int taken = 0;
    for (std::size_t i = 0; i < complete_.size(); ++i) {
      const ProgramReading::Operation& op = reading_.operations[i];
      if (op.rank == rank && op.begin >= 0 && state[index(op.begin)] && !holds(complete_[i], state)) ++taken;
    }
    return taken;
  }

  [[nodiscard]] bool finished(const Events& state) const {
    return std::ranges::all_of(complete_, [&](const Condition& c) { return holds(c, state); });
  }

  void read_lifetimes() {
    for (const Tensor& tensor : table_.tensors) {
      Lifetime lifetime;
      if (tensor.from_start) lifetime.births.emplace_back(Events());
      for (const InstructionId id : table_.writers_of(tensor))
        lifetime.births.push_back(started_[id.index()]);
      if (!tensor.to_end) lifetime.death = Events();
      for (const InstructionId id : table_.users_of(tensor)) also(lifetime.death, complete_[id.index()]);
      lifetimes_[tensor.rank].push_back(std::move(lifetime));
    }
  }

  void count(const Events& state) {
    for (std::size_t r = 0; r < lifetimes_.size(); ++r) {
      const RankId rank(static_cast<std::int32_t>(r));
      std::uint64_t now = 0;
      for (std::size_t t = 0; t < lifetimes_[rank].size(); ++t) {
        const Lifetime& lifetime = lifetimes_[rank][t];
        const bool born =
            std::ranges::any_of(lifetime.births, [&](const Condition& c) { return holds(c, state); });
        if (born && !holds(lifetime.death, state)) now |= std::uint64_t{1} << t;
      }
      std::vector<std::uint64_t>& live = live_[rank];
      if (std::ranges::any_of(live, [now](std::uint64_t other) { return (now & ~other) == 0; })) continue;
      std::erase_if(live, [now](std::uint64_t other) { return (other & ~now) == 0; });
      live.push_back(now);
    }
  }

  struct Lifetime {
    std::vector<Condition> births;  ///< one of them
    Condition death;
  };

  const ProgramReading& reading_;
  std::optional<int> residency_;
  const TensorTable& table_;
  std::vector<Condition> may_happen_;  ///< per event; nothing for those that begin communication
  std::vector<Condition> ready_;       ///< per operation
  std::vector<Condition> started_;
  std::vector<Condition> complete_;
  std::unordered_set<Events> seen_;
  std::vector<Events> open_;
  IdVector<RankId, std::vector<Lifetime>> lifetimes_;
  IdVector<RankId, std::vector<std::uint64_t>> live_;
};

/// Of one rank.
std::size_t max_tensors(const TensorTable& table) {
  std::map<RankId, std::size_t> count;
  std::size_t most = 0;
  for (const Tensor& tensor : table.tensors) most = std::max(most, ++count[tensor.rank]);
  return most;
}

}  // namespace

ListRules read_lists(const Program& program) { return read_rules(program, TransportCapabilities()).lists; }

Bytes Reachable::most(const TensorTable& table, const std::vector<Bytes>& sizes, RankId rank) const {
  const auto first = std::ranges::lower_bound(table.tensors, rank, {}, &Tensor::rank);
  const auto begin = static_cast<std::size_t>(first - table.tensors.begin());
  Bytes most = 0;
  for (const std::uint64_t state : live[rank]) {
    Bytes bytes = 0;
    for (std::size_t t = 0; t < 64 && (state >> t) != 0; ++t)
      bytes += (state >> t & 1) != 0 ? sizes[begin + t] : 0;
    most = std::max(most, bytes);
  }
  return most;
}

std::optional<Reachable> reachable_states(const Program& program, const TransportCapabilities& capabilities,
                                          const TensorTable& table, std::size_t limit) {
  const ProgramReading reading = read_rules(program, capabilities);
  if (reading.events > kMaxEvents || max_tensors(table) > 64) return std::nullopt;
  Reachable result{reading.lists, false, 0, {}};
  if (!reading.lists.matched) return result;
  const auto ranks = static_cast<std::size_t>(program.pipeline().ranks());
  if (!Exploration(reading, capabilities, table, ranks).run(limit, result)) return std::nullopt;
  return result;
}

}  // namespace ppsim::test
