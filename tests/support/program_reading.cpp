#include "support/program_reading.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <tuple>
#include <utility>

#include "ppsim/core/execution/facts.hpp"

namespace ppsim::test {
namespace {

/// Fills in what it is.
class ProgramReader : public ProgramReading {
 public:
  ProgramReader(const Program& program, const TransportCapabilities& capabilities)
      : program_(program), capabilities_(capabilities) {
    operations.resize(program.size());
    for (int r = 0; r < program.pipeline().ranks(); ++r) read_rank(RankId(r));
    number_transfers();
    number_gatherings();
    for (std::size_t i = 0; i < operations.size(); ++i) number(operations[i]);
    for (std::size_t i = 0; i < operations.size(); ++i) {
      const Operation& op = operations[i];
      lists.ordered &= !op.never && std::ranges::all_of(op.before, [i](std::size_t b) { return b < i; });
    }
  }

 private:
  using Place = std::pair<std::size_t, const Action*>;  ///< operation and one of its actions

  static std::size_t index(InstructionId id) { return id.index(); }

  void read_rank(RankId rank) {
    std::map<int, std::size_t> tail;
    std::map<Fact, std::size_t> provider = providers(rank);
    std::optional<std::size_t> host;
    std::map<CommunicatorId, std::size_t> matches;
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
        if (is_collective(action.kind)) meet(id.index(), communicators[a], matches[communicators[a]]++);
      }
      const bool blocks = capabilities_.issue_blocks && op.communicates;
      if (program_.instruction(id).blocking || blocks) host = id.index();
    }
    launches(rank);
    for (const StageId stage : program_.pipeline().stages_of(rank)) shards(rank, stage);
  }

  /// E9.
  void launches(RankId rank) {
    const LaunchChain& chain = capabilities_.launches;
    std::vector<std::size_t> chained;
    for (int i = program_.first(rank).value(); i < program_.last(rank).value(); ++i) {
      if (chain.everything || meets_others(i) || (chain.compute && computes(i)))
        chained.push_back(static_cast<std::size_t>(i));
    }
    for (std::size_t k = 1; k < chained.size() && chain.order != LaunchOrder::none; ++k) {
      const std::size_t before = chained[k - 1];
      const bool over = operations[before].communicates ? chain.order == LaunchOrder::completion
                                                        : chain.compute && computes(static_cast<int>(before));
      Operation& op = operations[chained[k]];
      op.launched_after = static_cast<int>(before);
      if (over) op.before.push_back(before);
    }
  }

  [[nodiscard]] bool meets_others(int i) const {
    const InstructionId id(i);
    return operations[id.index()].communicates &&
           program_.communicator(program_.communicators_of(id)[0]).members !=
               std::vector{program_.rank_of(id)};
  }
  [[nodiscard]] bool computes(int i) const {
    return info(program_.actions(InstructionId(i)).front().kind).resource == Resource::compute;
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
        if (capabilities_.receipts_lag()) transfer.in = static_cast<int>(events++);
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
        gatherings.emplace(static_cast<int>(events++), Gathering{members, complete});
        lists.matched &= action(member) == action(members.front());
      }
      lists.paired &= complete;
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
};

}  // namespace

ProgramReading read_rules(const Program& program, const TransportCapabilities& capabilities) {
  return ProgramReader(program, capabilities);  // its base, the reading alone
}

}  // namespace ppsim::test
