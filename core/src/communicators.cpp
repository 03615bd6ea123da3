#include "ppsim/core/communicators.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "ppsim/core/check.hpp"

namespace ppsim {
namespace {

/// What operations of one communicator have in common; its order is the order of the communicators.
struct Key {
  enum class Kind { world, pair, edge, stage_edge, lent_edge, collective, block, shard };
  Kind kind = Kind::world;
  int a = -1;
  int b = -1;
  int stage = -1;
  friend auto operator<=>(const Key&, const Key&) = default;
};

/// The two ends of a transfer, in the direction in which it goes.
struct Ends {
  int from;
  int to;
};

Ends rank_ends(const Pipeline& pipeline, const Action& transfer, RankId own) {
  const RankId peer = peer_rank(pipeline, transfer);
  return is_send(transfer.kind) ? Ends{own.value(), peer.value()} : Ends{peer.value(), own.value()};
}

Ends stage_ends(const Action& transfer) {
  return is_send(transfer.kind) ? Ends{transfer.subject, transfer.peer}
                                : Ends{transfer.peer, transfer.subject};
}

Key transfer_key(const Pipeline& pipeline, const Action& transfer, RankId own, CommunicatorPolicy policy) {
  const Ends ranks = rank_ends(pipeline, transfer, own);
  switch (policy) {
    case CommunicatorPolicy::per_rank:
      return {Key::Kind::world};
    case CommunicatorPolicy::per_pair:
      return {Key::Kind::pair, std::min(ranks.from, ranks.to), std::max(ranks.from, ranks.to)};
    case CommunicatorPolicy::per_edge:
      return {Key::Kind::edge, ranks.from, ranks.to};
    case CommunicatorPolicy::per_stage_edge: {
      if (transfer.kind == OpKind::send_activation || transfer.kind == OpKind::recv_activation) {
        return {Key::Kind::lent_edge, ranks.from, ranks.to, transfer.subject};
      }
      const Ends stages = stage_ends(transfer);
      return {Key::Kind::stage_edge, stages.from, stages.to};
    }
  }
  return {};
}

Key key_of(const Pipeline& pipeline, const Action& action, RankId own, CommunicatorPolicy policy) {
  if (is_transfer(action.kind)) return transfer_key(pipeline, action, own, policy);
  if (action.kind == OpKind::collective) return {Key::Kind::collective, action.subject};
  if (action.kind == OpKind::reduce_grad) return {Key::Kind::block, action.subject};
  PPSIM_CHECK(action.kind == OpKind::unshard, "a communication that no communicator is for");
  return {Key::Kind::shard, own.value()};
}

std::string name_of(const Pipeline& pipeline, const Key& key) {
  const std::string a = std::to_string(key.a);
  const std::string b = std::to_string(key.b);
  switch (key.kind) {
    case Key::Kind::world:
      return "world";
    case Key::Kind::pair:
      return a + "-" + b;
    case Key::Kind::edge:
      return a + ">" + b;
    case Key::Kind::stage_edge:
      return "s" + a + ">s" + b;
    case Key::Kind::lent_edge:
      return "s" + std::to_string(key.stage) + " " + a + ">" + b;
    case Key::Kind::collective:
      return pipeline.spec().collectives[CollectiveId(key.a)].name;
    case Key::Kind::block:
      return "reduce b" + a;
    case Key::Kind::shard:
      return "shard r" + a;
  }
  return {};
}

/// The ranks that a communicator has whatever its operations are.
std::set<RankId> fixed_members(const Pipeline& pipeline, const Key& key) {
  std::set<RankId> members;
  switch (key.kind) {
    case Key::Kind::world:
      for (int r = 0; r < pipeline.ranks(); ++r) members.insert(RankId(r));
      break;
    case Key::Kind::collective:
      for (const RankId rank : pipeline.spec().collectives[CollectiveId(key.a)].members) members.insert(rank);
      break;
    case Key::Kind::block:
      for (const StageId stage : pipeline.spec().blocks[BlockId(key.a)].stages) {
        members.insert(pipeline.rank_of(stage));
      }
      break;
    case Key::Kind::pair:
    case Key::Kind::edge:
    case Key::Kind::stage_edge:
    case Key::Kind::lent_edge:
    case Key::Kind::shard:
      break;
  }
  return members;
}

class Assignment {
 public:
  Assignment(const Pipeline& pipeline, CommunicatorPolicy policy) : pipeline_(pipeline), policy_(policy) {}

  void run(ProgramDraft& draft) {
    for_each_communication(draft,
                           [this](const Action& action, RankId own, CommunicatorId&) { use(action, own); });
    draft.communicators.clear();
    std::map<Key, CommunicatorId> numbers;
    for (const auto& [key, members] : members_) {
      numbers[key] = CommunicatorId(static_cast<std::int32_t>(draft.communicators.size()));
      draft.communicators.push_back({name_of(pipeline_, key), {members.begin(), members.end()}, queue()});
    }
    for_each_communication(draft, [&](const Action& action, RankId own, CommunicatorId& communicator) {
      communicator = numbers.at(key_of(pipeline_, action, own, policy_));
    });
  }

 private:
  template <class Visit>
  static void for_each_communication(ProgramDraft& draft, Visit visit) {
    for (std::size_t r = 0; r < draft.rows.size(); ++r) {
      const RankId own(static_cast<std::int32_t>(r));
      for (InstructionDraft& item : draft.rows[own]) {
        item.communicators.resize(item.actions.size());
        for (std::size_t i = 0; i < item.actions.size(); ++i) {
          if (is_communication(item.actions[i].kind)) visit(item.actions[i], own, item.communicators[i]);
        }
      }
    }
  }

  /// A misplaced action makes its rank a member too, so that the draft is a Program, if a wrong one.
  void use(const Action& action, RankId own) {
    const Key key = key_of(pipeline_, action, own, policy_);
    const auto [entry, fresh] = members_.try_emplace(key);
    if (fresh) entry->second = fixed_members(pipeline_, key);
    entry->second.insert(own);
    if (is_transfer(action.kind)) entry->second.insert(peer_rank(pipeline_, action));
  }

  [[nodiscard]] int queue() const { return policy_ == CommunicatorPolicy::per_rank ? 0 : -1; }

  const Pipeline& pipeline_;
  CommunicatorPolicy policy_;
  std::map<Key, std::set<RankId>> members_;
};

}  // namespace

void assign_communicators(const Pipeline& pipeline, ProgramDraft& draft, CommunicatorPolicy policy) {
  Assignment(pipeline, policy).run(draft);
}

}  // namespace ppsim
