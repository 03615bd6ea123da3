#include "repair/candidates.hpp"

#include <algorithm>

#include "ppsim/core/execution/facts.hpp"
#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/ir/sequences.hpp"

namespace ppsim::verifier::repairing {
namespace {

/// Places tried on each side of an instruction: repairs are local, and lists may be long.
constexpr std::size_t kMaxPlaces = 64;

InstructionId at(std::int32_t i) { return InstructionId(i); }

bool contains(std::span<const InstructionId> ids, InstructionId id) {
  return std::ranges::find(ids, id) != ids.end();
}

}  // namespace

Candidates::Candidates(const Program& program, const ExecutionGraph& graph)
    : program_(program),
      graph_(graph),
      known_(as_size(program.pipeline().ranks()), 0),
      depend_(program.size()) {
  for (const Message& message : graph.messages) {
    const auto member = message.send_action - program.instruction(message.send).first_action;
    const ChannelKey key = channel_key(program, message.send, member);
    if (number_.emplace(key, static_cast<int>(channels_.size())).second) channels_.push_back(key);
  }
}

int Candidates::channel_of(InstructionId id, std::size_t member) const {
  return number_.at(channel_key(program_, id, member));
}

int Candidates::channel_of(std::span<const InstructionId> ids, const Action& action) const {
  for (const InstructionId id : ids) {
    const auto actions = program_.actions(id);
    const auto at = std::ranges::find(actions, action);
    if (at != actions.end()) return channel_of(id, as_size(at - actions.begin()));
  }
  PPSIM_CHECK(false, "an action that none of its instructions holds");
}

std::vector<int> Candidates::channels_of(InstructionId id) const {
  std::vector<int> result;
  const auto actions = program_.actions(id);
  for (std::size_t i = 0; i < actions.size(); ++i) {
    if (is_transfer(actions[i].kind)) result.push_back(channel_of(id, i));
  }
  sort_unique(result);
  return result;
}

bool Candidates::transfers(InstructionId id) const { return is_transfer(program_.actions(id).front().kind); }

/// The parameters that UNSHARD gathers depend on its place in the list, so it stays.
bool Candidates::moves(InstructionId id) const {
  const OpKind kind = program_.actions(id).front().kind;
  return is_communication(kind) && kind != OpKind::unshard;
}

bool Candidates::blocks(InstructionId id) const {
  return program_.instruction(id).blocking ||
         (graph_.capabilities.issue_blocks && is_communication(program_.actions(id).front().kind));
}

/// Messages of a channel, and collectives of a communicator, meet by their order.
bool Candidates::meet_in_order(InstructionId a, InstructionId b) const {
  if (!moves(a) || !moves(b)) return false;
  if (!transfers(a) || !transfers(b)) {
    return !transfers(a) && !transfers(b) &&
           program_.communicators_of(a).front() == program_.communicators_of(b).front();
  }
  const std::vector<int> of_a = channels_of(a);
  const std::vector<int> of_b = channels_of(b);
  return std::ranges::find_first_of(of_a, of_b) != of_a.end();
}

/// Whether the order of the two in their list makes the second wait for the first.
bool Candidates::matters(InstructionId first, InstructionId second) const {
  if (blocks(first) || contains(program_.after(second), first)) return true;
  const LaunchChain& chain = graph_.capabilities.launches;
  if (is_chained(chain, program_, first) && is_chained(chain, program_, second)) return true;
  const std::vector<int> of_first = program_.queues_of(first);
  const std::vector<int> of_second = program_.queues_of(second);
  return std::ranges::find_first_of(of_first, of_second) != of_first.end();
}

void Candidates::find_dependencies(RankId rank) {
  const Pipeline& pipeline = program_.pipeline();
  std::map<Fact, std::int32_t> provider;
  std::vector<Fact> provided;
  const std::int32_t first = program_.first(rank).value();
  const std::int32_t last = program_.last(rank).value();
  for (std::int32_t i = first; i < last; ++i) {
    depend_[as_size(i)] = {first - 1, last};
    provided.clear();
    for (const Action& action : program_.actions(at(i))) provided_facts(pipeline, action, rank, provided);
    for (const Fact& fact : provided) provider.emplace(fact, i);
  }
  std::vector<Requirement> required;
  for (std::int32_t i = first; i < last; ++i) {
    Range& own = depend_[as_size(i)];
    required.clear();
    for (const Action& action : program_.actions(at(i))) required_facts(pipeline, action, rank, required);
    for (const Requirement& requirement : required) {
      const auto found = provider.find(requirement.fact);
      // An order that is broken already keeps nothing in its place.
      if (found == provider.end() || found->second > i) continue;
      own.low = std::max(own.low, found->second);
      Range& other = depend_[as_size(found->second)];
      other.high = std::min(other.high, i);
    }
    for (const InstructionId after : program_.after(at(i))) {
      Range& other = depend_[after.index()];
      // An instruction that moves before one of its `after` list gives that entry up; one that moves back
      // cannot.
      other.high = std::min(other.high, i);
    }
  }
}

Candidates::Range Candidates::range_of(InstructionId id) {
  const RankId rank = program_.rank_of(id);
  if (known_[rank.index()] == 0) {
    find_dependencies(rank);
    known_[rank.index()] = 1;
  }
  return depend_[id.index()];
}

const std::vector<Candidate>& Candidates::moves_of(InstructionId id) {
  const auto [entry, fresh] = moves_.try_emplace(id);
  if (fresh && moves(id)) entry->second = find_moves(id);
  return entry->second;
}

std::vector<Candidate> Candidates::find_moves(InstructionId id) {
  std::vector<Candidate> found;
  const Range range = range_of(id);
  const auto add = [&](std::int32_t anchor, bool before, std::size_t passed) {
    found.push_back({.kind = ChangeKind::move,
                     .what = id,
                     .anchor = at(anchor),
                     .before = before,
                     .passed = static_cast<int>(passed)});
  };
  std::size_t passed = 0;
  for (std::int32_t j = id.value() - 1; j > range.low && passed < kMaxPlaces; --j) {
    if (meet_in_order(id, at(j))) break;
    if (matters(at(j), id)) add(j, true, ++passed);
  }
  passed = 0;
  for (std::int32_t j = id.value() + 1; j < range.high && passed < kMaxPlaces; ++j) {
    if (meet_in_order(id, at(j))) break;
    if (matters(id, at(j))) add(j, false, ++passed);
  }
  return found;
}

std::vector<Candidate> Candidates::group_of(InstructionId first, InstructionId second) {
  const auto single = [&](InstructionId id) {
    return transfers(id) && program_.instruction(id).form == InstructionForm::single;
  };
  if (!single(first) || !single(second)) return {};
  const Range of_first = range_of(first);
  const Range of_second = range_of(second);
  if (of_first.high <= second.value() && of_second.low >= first.value()) return {};
  const auto between = [&](std::int32_t j) {
    return moves(at(j)) && (matters(first, at(j)) || matters(at(j), second));
  };
  for (std::int32_t j = first.value() + 1; j < second.value(); ++j) {
    if (between(j)) return {};
  }
  const bool at_second = of_first.high > second.value();
  return {{.kind = ChangeKind::group, .what = first, .anchor = second, .before = !at_second}};
}

}  // namespace ppsim::verifier::repairing
