#include "support/random_program.hpp"

#include <algorithm>
#include <random>
#include <set>
#include <stdexcept>
#include <tuple>

#include "ppsim/core/lowering/lowering.hpp"

namespace ppsim::test {
namespace {

/// std::mt19937_64 is the same everywhere; the distributions of <random> are not.
class RandomDice {
 public:
  explicit RandomDice(std::uint64_t seed) : engine_(seed) {}
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>(engine_() % limit); }
  bool one_in(std::size_t n) { return below(n) == 0; }

 private:
  std::mt19937_64 engine_;
};

LoweringOptions random_options(RandomDice& dice) {
  constexpr IssueOrder kOrders[] = {IssueOrder::global, IssueOrder::early, IssueOrder::issue_ordered};
  constexpr CommunicatorPolicy kPolicies[] = {CommunicatorPolicy::per_rank, CommunicatorPolicy::per_pair,
                                              CommunicatorPolicy::per_edge,
                                              CommunicatorPolicy::per_stage_edge};
  LoweringOptions options;
  options.order = kOrders[dice.below(3)];
  options.early = static_cast<int>(dice.below(3));
  options.communicators = kPolicies[dice.below(4)];
  if (dice.one_in(3)) options.grouping = Grouping::paired;
  if (dice.one_in(3)) options.receive_buffers = 1 + static_cast<int>(dice.below(2));
  options.load = dice.one_in(3);
  options.unshard = dice.one_in(3);
  options.reduce_grad = dice.one_in(3);
  options.optimizer = dice.one_in(3);
  options.clip = options.optimizer && dice.one_in(2);
  return options;
}

bool is_transfer_instruction(const InstructionDraft& draft) {
  return is_transfer(draft.actions.front().kind);
}

/// Damages rows of drafts in ways that leave them buildable, or groups what they exchange.
class Mutator {
 public:
  Mutator(ProgramDraft& draft, RandomDice& dice) : draft_(draft), dice_(dice) {}

  void mutate() {
    Row& row = draft_.rows[RankId(static_cast<std::int32_t>(dice_.below(draft_.rows.size())))];
    if (row.size() < 2) return;
    const std::size_t at = dice_.below(row.size() - 1);
    switch (dice_.below(7)) {
      case 0:
        return swap(row, at);
      case 1:
        return drop(row, at);
      case 2:
        return copy(row, at);
      case 3:
        return reroute(row[at]);
      case 4:
        return group(row, at);
      case 5:
        row[at].blocking = true;
        return;
      default:
        row[at + 1].after.push_back(static_cast<int>(dice_.below(row.size())));
    }
  }

  /// Groups the first two messages of channels at both ends. The receives come before all else on their rank,
  /// so that they are in flight while other groups are.
  void group_ahead(const Pipeline& pipeline) {
    std::set<ChannelEnds> channels;
    for (std::int32_t r = 0; r < pipeline.ranks(); ++r) {
      const RankId rank(r);
      for (const InstructionDraft& draft : draft_.rows[rank]) {
        if (is_transfer_instruction(draft) && is_send(draft.actions.front().kind))
          channels.emplace(draft.communicators.front(), rank, peer_rank(pipeline, draft.actions.front()));
      }
    }
    for (const auto& [communicator, source, destination] : channels) {
      const std::vector<std::size_t> sends = of_channel(pipeline, source, communicator, destination, true);
      const std::vector<std::size_t> receives =
          of_channel(pipeline, destination, communicator, source, false);
      if (dice_.one_in(4) || sends.empty() || receives.empty()) continue;
      bring(draft_.rows[source], sends[0], sends[1] - 1);
      group(draft_.rows[source], sends[1] - 1);
      Row& row = draft_.rows[destination];
      for (std::size_t i = 0; i < 2; ++i) {
        row[receives[i]].after.clear();
        bring(row, receives[i], i);
      }
      group(row, 0);
    }
  }

 private:
  using Row = std::vector<InstructionDraft>;
  using ChannelEnds = std::tuple<CommunicatorId, RankId, RankId>;

  static void swap(Row& row, std::size_t at) {
    std::swap(row[at], row[at + 1]);
    renumber(row, [at](std::size_t i) { return i == at ? at + 1 : i == at + 1 ? at : i; });
  }

  /// Where the first two messages of one direction stand; empty if one of them is in a group, or missing.
  [[nodiscard]] std::vector<std::size_t> of_channel(const Pipeline& pipeline, RankId own,
                                                    CommunicatorId communicator, RankId peer,
                                                    bool sends) const {
    std::vector<std::size_t> found;
    const Row& row = draft_.rows[own];
    for (std::size_t i = 0; i < row.size() && found.size() < 2; ++i) {
      for (std::size_t a = 0; a < row[i].actions.size(); ++a) {
        const Action& action = row[i].actions[a];
        if (!is_transfer(action.kind) || is_send(action.kind) != sends) continue;
        if (row[i].communicators[a] != communicator || peer_rank(pipeline, action) != peer) continue;
        if (row[i].form != InstructionForm::single) return {};
        found.push_back(i);
      }
    }
    return found.size() == 2 ? found : std::vector<std::size_t>();
  }

  static void bring(Row& row, std::size_t from, std::size_t to) {
    for (; from < to; ++from) swap(row, from);
    for (; from > to; --from) swap(row, from - 1);
  }

  static void drop(Row& row, std::size_t at) {
    row.erase(row.begin() + static_cast<std::ptrdiff_t>(at));
    for (InstructionDraft& draft : row) std::erase(draft.after, static_cast<int>(at));
    renumber(row, [at](std::size_t i) { return i > at ? i - 1 : i; });
  }

  static void copy(Row& row, std::size_t at) {
    const InstructionDraft copied = row[at];
    row.insert(row.begin() + static_cast<std::ptrdiff_t>(at), copied);
    renumber(row, [at](std::size_t i) { return i > at ? i + 1 : i; });
  }

  /// To another communicator with the same members, where there is one.
  void reroute(InstructionDraft& draft) {
    if (!is_communication(draft.actions.front().kind)) return;
    CommunicatorId& id = draft.communicators.front();
    const std::size_t start = dice_.below(draft_.communicators.size());
    for (std::size_t i = 0; i < draft_.communicators.size(); ++i) {
      const std::size_t other = (start + i) % draft_.communicators.size();
      if (draft_.communicators[other].members != draft_.communicators[id.index()].members) continue;
      id = CommunicatorId(static_cast<std::int32_t>(other));
      return;
    }
  }

  static void group(Row& row, std::size_t at) {
    InstructionDraft& first = row[at];
    const InstructionDraft& second = row[at + 1];
    if (!is_transfer_instruction(first) || !is_transfer_instruction(second)) return;
    first.form = InstructionForm::group;
    first.actions.insert(first.actions.end(), second.actions.begin(), second.actions.end());
    first.communicators.insert(first.communicators.end(), second.communicators.begin(),
                               second.communicators.end());
    first.after.insert(first.after.end(), second.after.begin(), second.after.end());
    row.erase(row.begin() + static_cast<std::ptrdiff_t>(at + 1));
    renumber(row, [at](std::size_t i) { return i > at ? i - 1 : i; });
  }

  template <class Renumber>
  static void renumber(Row& row, Renumber new_position) {
    for (InstructionDraft& draft : row) {
      for (int& after : draft.after) after = static_cast<int>(new_position(static_cast<std::size_t>(after)));
    }
  }

  ProgramDraft& draft_;
  RandomDice& dice_;
};

/// The options that the schedule can be lowered with.
Program lower_somehow(const Schedule& schedule, RandomDice& dice) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    if (auto program = lower(schedule, random_options(dice))) return *std::move(program);
  }
  const auto program = lower(schedule, LoweringOptions());
  if (!program) throw std::invalid_argument(to_string(program.error()));
  return *program;
}

}  // namespace

Program random_program(const Schedule& schedule, int mutations, std::uint64_t seed) {
  RandomDice dice(seed);
  const Program lowered = lower_somehow(schedule, dice);
  ProgramDraft draft = to_draft(lowered);
  RandomDice grouping(~seed);  // Programs without such a group stay as they were
  if (grouping.one_in(4)) Mutator(draft, grouping).group_ahead(schedule.pipeline());
  for (int i = 0; i < mutations; ++i) Mutator(draft, dice).mutate();
  auto program = ProgramBuilder::build(schedule.pipeline(), draft);
  // An instruction that comes to wait for itself is the one damage that is not a Program.
  return program ? *std::move(program) : lowered;
}

Program late_program(const Schedule& schedule, std::uint64_t seed) {
  LoweringOptions options;
  options.order = IssueOrder::early;
  options.communicators = CommunicatorPolicy::per_stage_edge;
  const auto lowered = lower(schedule, options);
  if (!lowered) throw std::invalid_argument(to_string(lowered.error()));
  ProgramDraft draft = to_draft(*lowered);
  RandomDice dice(seed);
  for (auto& row : draft.rows) {
    for (InstructionDraft& instruction : row) {
      if (!is_transfer_instruction(instruction)) continue;
      if (dice.one_in(2)) instruction.after.clear();
      instruction.blocking = is_send(instruction.actions.front().kind) && dice.one_in(3);
    }
  }
  return *ProgramBuilder::build(schedule.pipeline(), draft);
}

CostTable random_costs(int stages, std::uint64_t seed) {
  RandomDice dice(seed);
  CostTable costs;
  const auto duration = [&] { return dice.one_in(3) ? 0 : static_cast<Nanoseconds>(dice.below(7)); };
  for (const OpInfo& kind : kOpTable) {
    costs.set({.kind = kind.kind}, duration());
    for (int s = 0; s < stages; ++s) {
      if (dice.one_in(2)) costs.set({.kind = kind.kind, .subject = s}, duration());
    }
  }
  return costs;
}

TransportCapabilities random_capabilities(bool with_residency, std::uint64_t seed) {
  RandomDice dice(seed);
  TransportCapabilities capabilities;
  if (dice.one_in(2)) capabilities.credits = 1 + static_cast<int>(dice.below(3));
  if (with_residency) capabilities.residency = 1 + static_cast<int>(dice.below(4));
  capabilities.issue_blocks = dice.one_in(5);
  capabilities.eager = dice.one_in(4);
  if (with_residency || dice.one_in(2)) return capabilities;
  capabilities.launches = {dice.one_in(2) ? LaunchOrder::start : LaunchOrder::completion, dice.one_in(2),
                           dice.one_in(3)};
  if (dice.one_in(2)) capabilities.guaranteed_launches = capabilities.launches;
  return capabilities;
}

}  // namespace ppsim::test
