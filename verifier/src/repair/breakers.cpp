#include "repair/breakers.hpp"

#include <algorithm>
#include <sstream>

#include "ppsim/core/io/text.hpp"
#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/ir/sequences.hpp"

namespace ppsim::verifier::repairing {

Breakers::Breakers(Search& search, const Context& context)
    : search_(search), context_(context), program_(context.proposal.edited.program) {}

const std::vector<InstructionId>& Breakers::originals(InstructionId id) const {
  return context_.proposal.edited.originals[id.index()];
}

WaitReason Breakers::reason(InstructionId first, InstructionId second) const {
  const auto waits = context_.graph.predecessors_of(second);
  const auto at = std::ranges::find(waits, first);
  PPSIM_CHECK(at != waits.end(), "a cycle along waits");
  return context_.graph.reasons_of(second)[as_size(at - waits.begin())];
}

bool Breakers::blocks(InstructionId id) const {
  return program_.instruction(id).blocking ||
         (context_.graph.capabilities.issue_blocks && is_communication(program_.actions(id).front().kind));
}

/// Whether the second waits for the first because it follows it on a queue, whatever is between them.
bool Breakers::holds_back(InstructionId first, InstructionId second) const {
  if (second <= first) return false;  // once around the cycle
  if (blocks(first)) return true;
  const std::vector<int> of_first = program_.queues_of(first);
  const std::vector<int> of_second = program_.queues_of(second);
  return std::ranges::find_first_of(of_first, of_second) != of_first.end();
}

void Breakers::take(const Candidate& candidate) { choices_.insert({search_.number_of(candidate), true}); }

/// Where an original instruction stands in the proposal's list.
PlaceKey Breakers::place_of(InstructionId original) const {
  const auto found = context_.proposal.touched.find(original);
  if (found == context_.proposal.touched.end()) return own_place(original);
  const Candidate& change = search_.made_[as_size(found->second)];
  if (change.kind == ChangeKind::move) return place_after(change);
  return own_place(change.before ? change.what : change.anchor);
}

/// The moves of an instruction that take it past another one, forward (before it) or back (after it).
void Breakers::moves(InstructionId original, InstructionId other, bool forward) {
  if (!search_.allowed(ChangeKind::move)) return;
  const PlaceKey place = place_of(other);
  const std::vector<Candidate> all = search_.candidates_.moves_of(original);
  for (const Candidate& move : all) {
    if (forward ? place_after(move) < place : place < place_after(move)) take(move);
  }
}

void Breakers::splits(InstructionId first, InstructionId second) {
  if (!search_.allowed(ChangeKind::split)) return;
  std::vector<int> channels;
  for (const InstructionId id : {first, second}) {
    for (const InstructionId original : originals(id)) {
      const std::vector<int> own = search_.candidates_.channels_of(original);
      append_all(channels, own);
    }
  }
  const bool one = std::ranges::all_of(channels, [&](int c) { return c == channels.front(); });
  const bool transfers =
      is_transfer(program_.actions(first).front().kind) && is_transfer(program_.actions(second).front().kind);
  if (one && transfers) return;
  for (const int channel : channels) {
    if (context_.proposal.is_split[as_size(channel)] == 0)
      take({.kind = ChangeKind::split, .channel = channel});
  }
}

/// The moves after which the second no longer follows the first.
void Breakers::passes(InstructionId first, InstructionId second) {
  for (const InstructionId a : originals(first)) {
    for (const InstructionId b : originals(second)) {
      moves(b, a, true);
      moves(a, b, false);
    }
  }
}

/// The second is launched after something that waits for the first, which may stand anywhere in a list that
/// is ill-formed, or after the first.
void Breakers::launch(InstructionId first, InstructionId second) {
  InstructionId holder(second.value() - 1);
  const auto holds = [&] {
    const auto waits = context_.graph.predecessors_of(holder);
    return std::ranges::find(waits, first) != waits.end() && reason(first, holder) != WaitReason::launch &&
           is_chained(context_.graph.capabilities.launches, program_, holder);
  };
  const InstructionId begin = program_.first(program_.rank_of(second));
  while (holder > begin && holder != first && !holds()) holder = InstructionId(holder.value() - 1);
  passes(holder, second);
  if (holder == first) return;
  touched(holder);
  if (reason(first, holder) != WaitReason::data) wait(first, holder);
}

/// The second follows the first on a queue, and waits for it.
void Breakers::wait(InstructionId first, InstructionId second) {
  passes(first, second);
  if (blocks(first)) return;
  const auto after = program_.after(second);
  if (std::ranges::find(after, first) != after.end()) return;
  splits(first, second);
  const bool lone = originals(first).size() == 1 && originals(second).size() == 1;
  if (!lone || !search_.allowed(ChangeKind::group)) return;
  const InstructionId a = originals(first).front();
  const InstructionId b = originals(second).front();
  if (b < a || context_.proposal.touched.contains(a) || context_.proposal.touched.contains(b)) return;
  for (const Candidate& group : search_.candidates_.group_of(a, b)) take(group);
}

/// A message waits for its receiver, or for a credit.
void Breakers::message(Event before, Event after) {
  if (!context_.events.leaves(after) || !search_.allowed(ChangeKind::credit)) return;
  const std::uint32_t m = context_.events.message(after);
  const bool from_receiver = context_.events.is_start(before) &&
                             context_.graph.messages[m].receive == context_.events.instruction(before);
  if (!from_receiver && !context_.events.received(before)) return;
  const int channel = context_.channel[m];
  take({.kind = ChangeKind::credit,
        .channel = channel,
        .level = context_.proposal.credits[as_size(channel)] + 1});
}

/// The change that the proposal makes to an instruction on the cycle.
void Breakers::touched(InstructionId id) {
  for (const InstructionId original : originals(id)) {
    const auto found = context_.proposal.touched.find(original);
    if (found != context_.proposal.touched.end()) choices_.insert({found->second, false});
  }
}

std::vector<Choice> Breakers::of(const std::vector<Event>& cycle) {
  choices_.clear();
  const WaitEvents& events = context_.events;
  const auto at = [&](std::size_t i) { return cycle[i % cycle.size()]; };
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    if (events.is_instruction(at(i))) touched(events.instruction(at(i)));
    if (!events.is_instruction(at(i)) || !events.is_instruction(at(i + 1))) {
      message(at(i), at(i + 1));
      continue;
    }
    const InstructionId first = events.instruction(at(i));
    InstructionId second = events.instruction(at(i + 1));
    if (first == second || reason(first, second) == WaitReason::data) continue;
    if (reason(first, second) == WaitReason::launch) {
      launch(first, second);
      continue;
    }
    // Moving instructions between the two on their queue is no way out: the last still waits for the first.
    const std::size_t edge = i;
    while (i + 3 < edge + cycle.size() && at(i + 2) == at(i + 1) + 1 && events.is_start(at(i + 3))) {
      const InstructionId next = events.instruction(at(i + 3));
      if (!holds_back(first, next)) break;
      second = next;
      i += 2;
    }
    wait(first, second);
  }
  return {choices_.begin(), choices_.end()};
}

std::string Breakers::text(const std::vector<Event>& cycle) const {
  std::ostringstream out;
  RankId rank;
  InstructionId last;
  for (const Event e : cycle) {
    if (!context_.events.is_instruction(e) || context_.events.instruction(e) == last) continue;
    last = context_.events.instruction(e);
    out << (out.str().empty() ? "" : ", ");
    if (program_.rank_of(last) != rank) out << "rank " << program_.rank_of(last) << ": ";
    rank = program_.rank_of(last);
    out << actions_text(program_, last);
  }
  return out.str();
}

}  // namespace ppsim::verifier::repairing
