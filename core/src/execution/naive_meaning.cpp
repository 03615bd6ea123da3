#include "naive_meaning.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "ppsim/core/execution/facts.hpp"

namespace ppsim {
namespace {

std::vector<InstructionId> list_of(const Program& program, RankId rank) {
  const auto ids = program.ids_of(rank);
  return {ids.begin(), ids.end()};
}

/// The waits of the instructions of one rank, rule by rule.
class RankRules {
 public:
  RankRules(const Program& program, RankId rank, const TransportCapabilities& capabilities, NaiveMeaning& out)
      : program_(program),
        pipeline_(program.pipeline()),
        rank_(rank),
        capabilities_(capabilities),
        list_(list_of(program, rank)),
        out_(out) {}

  void apply() {
    misplaced();
    host();
    queues();
    launches();
    data();
    shards();
    for (const InstructionId id : list_) {
      for (const InstructionId after : program_.after(id)) wait(id, after);
    }
  }

 private:
  NaiveInstruction& of(InstructionId id) { return out_.instructions[id.index()]; }
  void wait(InstructionId id, InstructionId on) { of(id).waits.push_back(on); }

  void misplaced() {
    for (const InstructionId id : list_) {
      for (const Action& a : program_.actions(id)) {
        of(id).rank = rank_;
        of(id).communication = is_communication(a.kind);
        if (!belongs_on(pipeline_, a, rank_)) of(id).never = true;
      }
    }
  }

  /// E1: nothing is issued while the host waits for a blocking instruction.
  void host() {
    InstructionId blocker;
    for (const InstructionId id : list_) {
      if (blocker.valid()) wait(id, blocker);
      if (program_.instruction(id).blocking || (capabilities_.issue_blocks && of(id).communication))
        blocker = id;
    }
  }

  /// E2 and E6: an instruction heads each of its queues when the one before it there is complete.
  void queues() {
    std::map<int, InstructionId> tail;
    for (const InstructionId id : list_) {
      for (const int queue : program_.queues_of(id)) {
        if (tail[queue].valid()) wait(id, tail[queue]);
        tail[queue] = id;
      }
    }
  }

  /// E9: one chain over all queues.
  void launches() {
    const LaunchChain& chain = capabilities_.launches;
    if (chain.order == LaunchOrder::none) return;
    InstructionId before;
    bool before_computes = false;
    for (const InstructionId id : list_) {
      const bool computes = is_compute(program_.actions(id).front().kind);
      const bool communicates =
          of(id).communication &&
          program_.communicator(program_.communicators_of(id).front()).members.size() > 1;
      if (!chain.everything && !communicates && !(computes && chain.compute)) continue;
      const bool whole = before.valid() && (before_computes ? chain.compute
                                                            : chain.order == LaunchOrder::completion &&
                                                                  of(before).communication);
      if (whole) wait(id, before);
      of(id).launched_after = before;
      before = id;
      before_computes = computes;
    }
  }

  /// E3 with section 3: each fact comes from the first action of the rank that provides it.
  void data() {
    std::map<Fact, InstructionId> provider;
    for (const InstructionId id : list_) {
      for (const Action& a : program_.actions(id)) {
        std::vector<Fact> facts;
        if (belongs_on(pipeline_, a, rank_)) provided_facts(pipeline_, a, rank_, facts);
        for (const Fact& fact : facts) provider.emplace(fact, id);
      }
    }
    for (const InstructionId id : list_) {
      for (const Action& a : program_.actions(id)) {
        std::vector<Requirement> requirements;
        if (belongs_on(pipeline_, a, rank_)) required_facts(pipeline_, a, rank_, requirements);
        for (const Requirement& requirement : requirements) {
          const auto found = provider.find(requirement.fact);
          if (found != provider.end()) wait(id, found->second);
          if (found == provider.end() && !requirement.optional) of(id).never = true;
        }
      }
    }
  }

  /// Section 3, 5: where a stage is ever gathered, its computation stands between an UNSHARD and a RESHARD.
  void shards() {
    for (const StageId stage : pipeline_.stages_of(rank_)) {
      bool gathers = false;
      for_each_of(stage, [&](InstructionId, OpKind kind) { gathers |= kind == OpKind::unshard; });
      InstructionId gather;
      std::vector<InstructionId> since;
      for_each_of(stage, [&](InstructionId id, OpKind kind) {
        if (kind == OpKind::unshard) gather = id;
        if (kind != OpKind::reshard && !(computes_stage(kind) && gathers)) return;
        if (!gather.valid()) {
          of(id).never = true;
          return;
        }
        wait(id, gather);
        since.push_back(id);
        if (kind != OpKind::reshard) return;
        for (const InstructionId user : since) {
          if (user != id) wait(id, user);
        }
        gather = InstructionId();
        since.clear();
      });
    }
  }

  template <class Visit>
  void for_each_of(StageId stage, Visit visit) {
    for (const InstructionId id : list_) {
      for (const Action& a : program_.actions(id)) {
        if (info(a.kind).subject != Subject::stage || a.stage() != stage) continue;
        if (belongs_on(pipeline_, a, rank_)) visit(id, a.kind);
      }
    }
  }

  const Program& program_;
  const Pipeline& pipeline_;
  RankId rank_;
  const TransportCapabilities& capabilities_;
  std::vector<InstructionId> list_;
  NaiveMeaning& out_;
};

/// One end of a message and where it stands.
struct End {
  InstructionId instruction;
  Action action;
  RankId rank;
};
struct Channel {
  std::vector<End> sends;
  std::vector<End> receives;
};
using Channels = std::map<std::tuple<CommunicatorId, RankId, RankId>, Channel>;

Channels channels_of(const Program& program) {
  Channels channels;
  for (const RankId rank : program.pipeline().rank_ids()) {
    for (const InstructionId id : list_of(program, rank)) {
      const auto actions = program.actions(id);
      for (std::size_t i = 0; i < actions.size(); ++i) {
        if (!is_transfer(actions[i].kind)) continue;
        const CommunicatorId communicator = program.communicators_of(id)[i];
        const RankId peer = peer_rank(program.pipeline(), actions[i]);
        const End end{id, actions[i], rank};
        if (is_send(actions[i].kind)) channels[{communicator, rank, peer}].sends.push_back(end);
        if (is_receive(actions[i].kind)) channels[{communicator, peer, rank}].receives.push_back(end);
      }
    }
  }
  return channels;
}

/// E4: the i-th SEND of a channel meets its i-th RECV.
void add_channel(const Channel& channel, const CostTable& costs, NaiveMeaning& out) {
  for (std::size_t i = 0; i < std::max(channel.sends.size(), channel.receives.size()); ++i) {
    const std::size_t m = out.messages.size();
    NaiveMessage message;
    if (i > 0) message.previous = static_cast<int>(m) - 1;
    if (i < channel.sends.size()) {
      message.send = channel.sends[i].instruction;
      message.duration = costs(cost_class_of(channel.sends[i].action));
      out.instructions[message.send.index()].sends.push_back(m);
    }
    if (i < channel.receives.size()) {
      message.receive = channel.receives[i].instruction;
      out.instructions[message.receive.index()].receives.push_back(m);
    }
    if (message.send.valid() && message.receive.valid()) {
      out.mismatch |=
          counterpart(channel.sends[i].action, channel.sends[i].rank) != channel.receives[i].action;
    }
    out.messages.push_back(message);
  }
}

/// E7: the i-th collective on a communicator meets the i-th on every member.
void add_matches(const Program& program, const CostTable& costs, NaiveMeaning& out) {
  std::map<std::pair<CommunicatorId, std::size_t>, std::vector<InstructionId>> met;
  for (const RankId rank : program.pipeline().rank_ids()) {
    std::map<CommunicatorId, std::size_t> count;
    for (const InstructionId id : list_of(program, rank)) {
      if (!is_collective(program.actions(id).front().kind)) continue;
      const CommunicatorId communicator = program.communicators_of(id).front();
      met[{communicator, count[communicator]++}].push_back(id);
    }
  }
  for (const auto& [key, members] : met) {
    const Action& first = program.actions(members.front()).front();
    for (const InstructionId id : members) {
      out.instructions[id.index()].match = static_cast<int>(out.matches.size());
      out.mismatch |= program.actions(id).front() != first;
    }
    out.matches.push_back(
        {members, program.communicator(key.first).members.size(), costs(cost_class_of(first))});
  }
}

}  // namespace

NaiveMeaning naive_meaning(const Program& program, const TransportCapabilities& capabilities,
                           const CostTable& costs) {
  NaiveMeaning meaning;
  meaning.instructions.resize(program.size());
  for (const RankId rank : program.pipeline().rank_ids()) {
    RankRules(program, rank, capabilities, meaning).apply();
  }
  for (const InstructionId id : program.ids()) {
    NaiveInstruction& instruction = meaning.instructions[id.index()];
    if (instruction.communication) continue;
    instruction.duration = costs(cost_class_of(program.actions(id), program.instruction(id).form));
  }
  for (const auto& [key, channel] : channels_of(program)) add_channel(channel, costs, meaning);
  add_matches(program, costs, meaning);
  return meaning;
}

}  // namespace ppsim
