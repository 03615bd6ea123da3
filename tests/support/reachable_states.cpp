#include "support/reachable_states.hpp"

#include <algorithm>
#include <bitset>
#include <iterator>
#include <map>
#include <tuple>
#include <unordered_set>

#include "ppsim/core/facts.hpp"

namespace ppsim::test {
namespace {

/// The events that have happened: work done, messages out, meetings held and, under a residency limit,
/// communication begun. Everything else that a state says follows from these.
constexpr std::size_t kMostEvents = 128;
using Events = std::bitset<kMostEvents>;
/// What must have happened; nothing: it never can.
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

struct Operation {
  RankId rank;
  bool communicates = false;
  bool never = false;
  std::vector<std::size_t> before;  ///< operations of its rank
  std::vector<std::size_t> sends;   ///< messages
  std::vector<std::size_t> receives;
  int event = -1;  ///< its work or its meeting
  int begin = -1;  ///< event, under a residency limit
};

struct Transfer {
  int send = -1;  ///< operation
  int receive = -1;
  Action sent;
  Action received;
  int previous = -1;
  int credit = -1;
  int out = -1;  ///< event
};

struct Gathering {
  std::vector<std::size_t> members;
  bool complete = true;
};

/// The rules of a Program, read one by one.
class Reading {
 public:
  Reading(const Program& program, const TransportCapabilities& capabilities)
      : program_(program), capabilities_(capabilities), operations(program.size()) {
    for (int r = 0; r < program.pipeline().ranks(); ++r) read_rank(RankId(r));
    number_transfers();
    number_gatherings();
    for (std::size_t i = 0; i < operations.size(); ++i) number(operations[i]);
    for (std::size_t i = 0; i < operations.size(); ++i) {
      const Operation& op = operations[i];
      lists.ordered &= !op.never && std::ranges::all_of(op.before, [i](std::size_t b) { return b < i; });
    }
  }

  ListRules lists;
  std::size_t events = 0;

 private:
  using Place = std::pair<std::size_t, const Action*>;  ///< operation and one of its actions

  static std::size_t index(InstructionId id) { return id.index(); }

  void read_rank(RankId rank) {
    std::map<int, std::size_t> tail;
    std::map<Fact, std::size_t> provider = providers(rank);
    std::optional<std::size_t> host;
    std::map<CommunicatorId, std::size_t> meetings;
    for (int i = program_.first(rank).value(); i < program_.last(rank).value(); ++i) {
      const InstructionId id(i);
      Operation& op = operations[id.index()];
      op.rank = rank;
      if (host) op.before.push_back(*host);
      for (const InstructionId after : program_.after(id)) op.before.push_back(after.index());
      for (const int queue : program_.queues_of(id)) {
        if (const auto [last, first] = tail.try_emplace(queue, id.index()); !first) {
          op.before.push_back(std::exchange(last->second, id.index()));
        }
      }
      const auto communicators = program_.communicators_of(id);
      for (std::size_t a = 0; a < program_.actions(id).size(); ++a) {
        const Action& action = program_.actions(id)[a];
        op.communicates = is_communication(action.kind);
        if (!belongs_on(program_.pipeline(), action, rank)) {
          op.never = true;
        } else {
          data(op, action, provider);
        }
        if (is_transfer(action.kind)) end(id.index(), action, communicators[a]);
        if (is_collective(action.kind)) meet(id.index(), communicators[a], meetings[communicators[a]]++);
      }
      const bool blocks = capabilities_.issue_blocks && op.communicates;
      if (program_.instruction(id).blocking || blocks) host = id.index();
    }
    for (const StageId stage : program_.pipeline().stages_of(rank)) shards(rank, stage);
  }

  /// A stage that is ever gathered computes between an UNSHARD and the next RESHARD.
  void shards(RankId rank, StageId stage) {
    std::vector<Place> places;
    bool gathers = false;
    for (int i = program_.first(rank).value(); i < program_.last(rank).value(); ++i) {
      for (const Action& action : program_.actions(InstructionId(i))) {
        if (info(action.kind).subject != Subject::stage || action.stage() != stage) continue;
        places.emplace_back(static_cast<std::size_t>(i), &action);
        gathers |= action.kind == OpKind::unshard;
      }
    }
    int gathered = -1;
    std::vector<std::size_t> users;
    for (const auto& [at, action] : places) {
      const bool drops = action->kind == OpKind::reshard;
      const bool computes = info(action->kind).resource == Resource::compute && !drops;
      if (action->kind == OpKind::unshard) {
        gathered = static_cast<int>(at);
        users.clear();
      }
      if (!drops && !(computes && gathers)) continue;
      Operation& op = operations[at];
      if (gathered < 0) {
        op.never = true;
        continue;
      }
      op.before.push_back(static_cast<std::size_t>(gathered));
      if (!drops) {
        users.push_back(at);
        continue;
      }
      std::ranges::copy(users, std::back_inserter(op.before));
      gathered = -1;
    }
  }

  std::map<Fact, std::size_t> providers(RankId rank) const {
    std::map<Fact, std::size_t> provider;
    std::vector<Fact> facts;
    for (int i = program_.first(rank).value(); i < program_.last(rank).value(); ++i) {
      for (const Action& action : program_.actions(InstructionId(i))) {
        facts.clear();
        if (belongs_on(program_.pipeline(), action, rank))
          provided_facts(program_.pipeline(), action, rank, facts);
        for (const Fact& fact : facts) provider.emplace(fact, static_cast<std::size_t>(i));
      }
    }
    return provider;
  }

  void data(Operation& op, const Action& action, const std::map<Fact, std::size_t>& provider) const {
    std::vector<Requirement> needs;
    required_facts(program_.pipeline(), action, op.rank, needs);
    for (const Requirement& need : needs) {
      const auto found = provider.find(need.fact);
      if (found != provider.end()) op.before.push_back(found->second);
      if (found == provider.end() && !need.optional) op.never = true;
    }
  }

  void end(std::size_t operation, const Action& action, CommunicatorId communicator) {
    const RankId own = operations[operation].rank;
    const RankId peer = peer_rank(program_.pipeline(), action);
    const bool sends = is_send(action.kind);
    auto& [sent, received] =
        channels_[sends ? std::tuple(communicator, own, peer) : std::tuple(communicator, peer, own)];
    (sends ? sent : received).emplace_back(operation, &action);
  }

  void meet(std::size_t operation, CommunicatorId communicator, std::size_t nth) {
    met_[{communicator, nth}].push_back(operation);
  }

  void number_transfers() {
    for (const auto& [key, ends] : channels_) {
      const auto& [sent, received] = ends;
      lists.paired &= sent.size() == received.size();
      for (std::size_t i = 0; i < std::max(sent.size(), received.size()); ++i) {
        const int number = static_cast<int>(transfers.size());
        Transfer transfer;
        if (i > 0) transfer.previous = number - 1;
        if (capabilities_.credits && static_cast<int>(i) >= *capabilities_.credits)
          transfer.credit = number - *capabilities_.credits;
        transfer.out = static_cast<int>(events++);
        if (i < sent.size()) {
          transfer.send = static_cast<int>(sent[i].first);
          operations[sent[i].first].sends.push_back(transfers.size());
        }
        if (i < received.size()) {
          transfer.receive = static_cast<int>(received[i].first);
          operations[received[i].first].receives.push_back(transfers.size());
        }
        if (i < sent.size() && i < received.size()) {
          lists.matched &= counterpart(*sent[i].second, std::get<1>(key)) == *received[i].second;
        }
        transfers.push_back(transfer);
      }
    }
  }

  void number_gatherings() {
    for (const auto& [key, members] : met_) {
      const bool complete = members.size() == program_.communicator(key.first).members.size();
      const auto action = [&](std::size_t i) {
        return program_.actions(InstructionId(static_cast<std::int32_t>(i))).front();
      };
      for (const std::size_t member : members) {
        operations[member].event = static_cast<int>(events);
        lists.matched &= action(member) == action(members.front());
      }
      lists.paired &= complete;
      gatherings.emplace(static_cast<int>(events++), Gathering{members, complete});
    }
  }

  void number(Operation& op) {
    if (!op.communicates) op.event = static_cast<int>(events++);
    if (op.communicates && capabilities_.residency) op.begin = static_cast<int>(events++);
  }

  const Program& program_;
  const TransportCapabilities& capabilities_;
  std::map<std::tuple<CommunicatorId, RankId, RankId>, std::pair<std::vector<Place>, std::vector<Place>>>
      channels_;
  std::map<std::pair<CommunicatorId, std::size_t>, std::vector<std::size_t>> met_;

 public:
  std::vector<Operation> operations;
  std::vector<Transfer> transfers;
  std::map<int, Gathering> gatherings;  ///< by event
};

/// Per operation and event, what must have happened.
class Conditions {
 public:
  Conditions(const Reading& reading, bool rendezvous)
      : reading_(reading),
        rendezvous_(rendezvous),
        ready_(reading.operations.size()),
        state_(reading.operations.size(), Known::no) {}

  /// For the operation to be allowed to start, places aside.
  const Condition& ready(std::size_t i) {
    if (state_[i] == Known::no) {
      state_[i] = Known::pending;
      const Operation& op = reading_.operations[i];
      Condition condition = op.never ? Condition() : Condition(Events());
      for (const std::size_t b : op.before) also(condition, complete(b));
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
    const Operation& op = reading_.operations[i];
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
  Condition out(const Transfer& transfer) {
    if (transfer.send < 0 || (rendezvous_ && transfer.receive < 0)) return {};
    Condition condition = started(static_cast<std::size_t>(transfer.send));
    if (rendezvous_) also(condition, started(static_cast<std::size_t>(transfer.receive)));
    if (transfer.previous >= 0)
      also(condition, event(reading_.transfers[static_cast<std::size_t>(transfer.previous)].out));
    if (transfer.credit >= 0) also(condition, received(static_cast<std::size_t>(transfer.credit)));
    return condition;
  }

  Condition gathered(const Gathering& gathering) {
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
    const Transfer& transfer = reading_.transfers[m];
    if (transfer.receive < 0 || transfer.send < 0) return {};
    Condition condition = event(transfer.out);
    also(condition, started(static_cast<std::size_t>(transfer.receive)));
    if (transfer.previous >= 0) also(condition, received(static_cast<std::size_t>(transfer.previous)));
    return condition;
  }

  const Reading& reading_;
  bool rendezvous_;
  std::vector<Condition> ready_;
  std::vector<Known> state_;
};

/// The states of one Program.
class Exploration {
 public:
  Exploration(const Reading& reading, const TransportCapabilities& capabilities, const TensorTable& table,
              std::size_t ranks)
      : reading_(reading),
        residency_(capabilities.residency),
        table_(table),
        lifetimes_(ranks),
        live_(ranks) {
    Conditions conditions(reading, !capabilities.credits.has_value());
    may_happen_.resize(reading.events);
    for (const Transfer& transfer : reading.transfers)
      may_happen_[index(transfer.out)] = conditions.out(transfer);
    for (const auto& [event, gathering] : reading.gatherings)
      may_happen_[index(event)] = conditions.gathered(gathering);
    for (std::size_t i = 0; i < reading.operations.size(); ++i) {
      const Operation& op = reading.operations[i];
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
      const Operation& op = reading_.operations[i];
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
      const Operation& op = reading_.operations[i];
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

  const Reading& reading_;
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
std::size_t most_tensors(const TensorTable& table) {
  std::map<RankId, std::size_t> count;
  std::size_t most = 0;
  for (const Tensor& tensor : table.tensors) most = std::max(most, ++count[tensor.rank]);
  return most;
}

}  // namespace

ListRules read_lists(const Program& program) { return Reading(program, TransportCapabilities()).lists; }

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
  const Reading reading(program, capabilities);
  if (reading.events > kMostEvents || most_tensors(table) > 64) return std::nullopt;
  Reachable result{reading.lists, false, 0, {}};
  if (!reading.lists.matched) return result;
  const auto ranks = static_cast<std::size_t>(program.pipeline().ranks());
  if (!Exploration(reading, capabilities, table, ranks).run(limit, result)) return std::nullopt;
  return result;
}

}  // namespace ppsim::test
