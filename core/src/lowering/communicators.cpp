#include "ppsim/core/lowering/communicators.hpp"

#include <algorithm>

#include "communicator_assignment.hpp"
#include "ppsim/core/ir/check.hpp"

namespace ppsim {
namespace {

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

template <class Visit>
void for_each_communication(ProgramDraft& draft, Visit visit) {
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

}  // namespace

CommunicatorAssignment::CommunicatorAssignment(const Pipeline& pipeline, CommunicatorPolicy policy)
    : pipeline_(pipeline),
      policy_(policy),
      subjects_(std::max(
          {as_size(pipeline.stages()), as_size(pipeline.blocks()), pipeline.spec().collectives.size()})),
      recent_(kOpKindCount * subjects_) {}

CommunicatorAssignment::Key CommunicatorAssignment::transfer_key(const Action& transfer, RankId own) const {
  const Ends ranks = rank_ends(pipeline_, transfer, own);
  switch (policy_) {
    case CommunicatorPolicy::per_rank:
      return {Key::Kind::world};
    case CommunicatorPolicy::per_pair:
      return {Key::Kind::pair, std::min(ranks.from, ranks.to), std::max(ranks.from, ranks.to)};
    case CommunicatorPolicy::per_edge:
      return {Key::Kind::edge, ranks.from, ranks.to};
    case CommunicatorPolicy::per_stage_edge: {
      if (names_peer_rank(transfer.kind)) {
        return {Key::Kind::eviction_edge, ranks.from, ranks.to, transfer.subject};
      }
      const Ends stages = stage_ends(transfer);
      return {Key::Kind::stage_edge, stages.from, stages.to};
    }
  }
  return {};
}

CommunicatorAssignment::Key CommunicatorAssignment::key_of(const Action& action, RankId own) const {
  if (is_transfer(action.kind)) return transfer_key(action, own);
  if (action.kind == OpKind::collective) return {Key::Kind::collective, action.subject};
  if (action.kind == OpKind::reduce_grad) return {Key::Kind::block, action.subject};
  PPSIM_CHECK(action.kind == OpKind::unshard, "a communication that no communicator is for");
  return {Key::Kind::shard, own.value()};
}

std::string CommunicatorAssignment::name_of(const Key& key) const {
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
    case Key::Kind::eviction_edge:
      return "s" + std::to_string(key.stage) + " " + a + ">" + b;
    case Key::Kind::collective:
      return pipeline_.spec().collectives[CollectiveId(key.a)].name;
    case Key::Kind::block:
      return "reduce b" + a;
    case Key::Kind::shard:
      return "shard r" + a;
  }
  return {};
}

/// The ranks that a communicator has whatever its operations are.
std::set<RankId> CommunicatorAssignment::fixed_members(const Key& key) const {
  std::set<RankId> members;
  switch (key.kind) {
    case Key::Kind::world:
      for (const RankId rank : pipeline_.rank_ids()) members.insert(rank);
      break;
    case Key::Kind::collective:
      for (const RankId rank : pipeline_.spec().collectives[CollectiveId(key.a)].members)
        members.insert(rank);
      break;
    case Key::Kind::block:
      for (const StageId stage : pipeline_.spec().blocks[BlockId(key.a)].stages) {
        members.insert(pipeline_.rank_of(stage));
      }
      break;
    case Key::Kind::pair:
    case Key::Kind::edge:
    case Key::Kind::stage_edge:
    case Key::Kind::eviction_edge:
    case Key::Kind::shard:
      break;
  }
  return members;
}

void CommunicatorAssignment::find(const Action& action, RankId own) {
  const Key key = key_of(action, own);
  const auto [found, fresh] = entries_.try_emplace(key);
  Entry& entry = found->second;
  if (fresh) entry.members = fixed_members(key);
  entry.members.insert(own);
  if (is_transfer(action.kind)) entry.members.insert(peer_rank(pipeline_, action));
  recent_of(action) = {own, action.peer, &entry};
}

void CommunicatorAssignment::use(const CommunicatorAssignment& part) {
  for (const auto& [key, entry] : part.entries_)
    entries_[key].members.insert(entry.members.begin(), entry.members.end());
}

void CommunicatorAssignment::number_as(const CommunicatorAssignment& whole) {
  for (auto& [key, entry] : entries_) entry.number = whole.entries_.at(key).number;
}

std::vector<Communicator> CommunicatorAssignment::number() {
  const int queue = policy_ == CommunicatorPolicy::per_rank ? 0 : -1;
  std::vector<Communicator> communicators;
  for (auto& [key, entry] : entries_) {
    entry.number = CommunicatorId(static_cast<std::int32_t>(communicators.size()));
    communicators.push_back({name_of(key), {entry.members.begin(), entry.members.end()}, queue});
  }
  return communicators;
}

void assign_communicators(const Pipeline& pipeline, ProgramDraft& draft, CommunicatorPolicy policy) {
  CommunicatorAssignment assignment(pipeline, policy);
  for_each_communication(
      draft, [&](const Action& action, RankId own, CommunicatorId&) { assignment.use(action, own); });
  draft.communicators = assignment.number();
  for_each_communication(draft, [&](const Action& action, RankId own, CommunicatorId& communicator) {
    communicator = assignment.of(action, own);
  });
}

}  // namespace ppsim
