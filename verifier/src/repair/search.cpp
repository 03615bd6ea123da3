#include "repair/search.hpp"

#include <algorithm>

#include "repair/breakers.hpp"

namespace ppsim::verifier::repairing {
namespace {

/// One more change outweighs whatever distinguishes changes.
constexpr unsigned kOneChange = 64;

unsigned weight_of(const Candidate& candidate) {
  switch (candidate.kind) {
    case ChangeKind::move:
      return kOneChange + static_cast<unsigned>(std::min(candidate.passed - 1, 1));
    case ChangeKind::group:
      return kOneChange + 2;
    case ChangeKind::split:
      return kOneChange + 3;
    case ChangeKind::credit:
      return kOneChange;
  }
  return kOneChange;
}

TransportCapabilities without_credits(TransportCapabilities capabilities) {
  capabilities.credits.reset();
  return capabilities;
}

std::vector<Choice> none_of_all(const std::vector<int>& numbers) {
  std::vector<Choice> choices;
  for (const int number : numbers) choices.push_back({number, false});
  return choices;
}

}  // namespace

Search::Search(const Input& input)
    : input_(input),
      capabilities_(without_credits(input.capabilities)),
      analyzed_(input.program, capabilities_),
      candidates_(input.program, analyzed_.graph()) {}

bool Search::allowed(ChangeKind kind) const {
  return std::ranges::find(input_.kinds, kind) != input_.kinds.end();
}

int Search::number_of(const Candidate& candidate) {
  if (const auto known = numbers_.find(candidate); known != numbers_.end()) return known->second;
  const int number = set_.add(weight_of(candidate));
  numbers_.emplace(candidate, number);
  made_.push_back(candidate);
  keep_apart(candidate, number);
  return number;
}

/// An instruction is moved once, or grouped once; a second credit comes with a first one.
void Search::keep_apart(const Candidate& candidate, int number) {
  if (candidate.kind == ChangeKind::credit && candidate.level > 1) {
    Candidate less = candidate;
    --less.level;
    set_.require({{number, false}, {number_of(less), true}});
  }
  if (candidate.kind != ChangeKind::move && candidate.kind != ChangeKind::group) return;
  const auto touch = [&](InstructionId id) {
    std::vector<int>& others = touching_[id];
    for (const int other : others) set_.require({{number, false}, {other, false}});
    others.push_back(number);
  };
  touch(candidate.what);
  if (candidate.kind == ChangeKind::group) touch(candidate.anchor);
}

Proposal Search::proposal_of(const std::vector<int>& numbers, Edited edited) const {
  const std::size_t channels = candidates_.channels().size();
  Proposal proposal{{},
                    std::move(edited),
                    {},
                    std::vector<int>(channels, input_.capabilities.credits.value_or(0)),
                    std::vector<char>(channels, 0)};
  for (const int number : numbers) {
    const Candidate& c = made_[as_size(number)];
    proposal.changes.push_back(c);
    const auto channel = as_size(std::max(c.channel, 0));
    if (c.kind == ChangeKind::credit)
      proposal.credits[channel] = std::max(proposal.credits[channel], c.level);
    if (c.kind == ChangeKind::split) proposal.is_split[channel] = 1;
    if (c.kind == ChangeKind::move || c.kind == ChangeKind::group) proposal.touched[c.what] = number;
    if (c.kind == ChangeKind::group) proposal.touched[c.anchor] = number;
  }
  return proposal;
}

NoRepair Search::no_set() {
  std::vector<std::string> lines = set_.core(input_.deadline.remaining_s());
  const std::string head = lines.empty()
                               ? "no set of the changes asked for breaks all cycles of waits"
                               : "the changes asked for cannot break these cycles of waits together:";
  lines.insert(lines.begin(), head);
  return {std::move(lines)};
}

std::variant<Proposal, NoRepair, Unknown> Search::propose() {
  while (true) {
    const CheapestSet::Answer answer = set_.cheapest(input_.deadline.remaining_s());
    switch (answer.outcome) {
      case CheapestSet::Answer::Outcome::unknown:
        return Unknown{answer.reason};
      case CheapestSet::Answer::Outcome::none:
        return no_set();
      case CheapestSet::Answer::Outcome::found:
        break;
    }
    std::vector<Candidate> changes;
    for (const int number : answer.changes) changes.push_back(made_[as_size(number)]);
    auto edited = apply(input_.program, candidates_, changes);
    if (edited) return proposal_of(answer.changes, *std::move(edited));
    set_.require(none_of_all(answer.changes));
  }
}

std::variant<Proposal, NoRepair, Unknown> Search::next() {
  while (true) {
    auto answer = propose();
    const auto* proposal = std::get_if<Proposal>(&answer);
    if (proposal == nullptr) return answer;
    const auto learned = learn(*proposal);
    if (const auto* stays = std::get_if<NoRepair>(&learned)) return *stays;
    if (!std::get<bool>(learned)) return answer;
  }
}

/// Moves that swap messages of a channel at one end only do not go together.
bool Search::learn_mismatches(const Proposal& proposal, const ExecutionGraph& graph) {
  bool found = false;
  for (const Message& message : graph.messages) {
    if (message.matched && message.complete()) continue;
    found = true;
    std::vector<int> numbers;
    for (const Candidate& c : proposal.changes) {
      if (c.kind == ChangeKind::move || c.kind == ChangeKind::group) numbers.push_back(numbers_.at(c));
    }
    set_.require(none_of_all(numbers));
    return found;
  }
  return found;
}

std::variant<bool, NoRepair> Search::learn(const Proposal& proposal) {
  const Program& program = proposal.edited.program;
  const AnalyzedProgram edited(program, capabilities_);
  const ExecutionGraph& graph = edited.graph();
  if (learn_mismatches(proposal, graph)) return true;
  std::vector<int> channel(graph.messages.size());
  std::vector<int> credits(graph.messages.size());
  for (std::size_t m = 0; m < graph.messages.size(); ++m) {
    const Message& message = graph.messages[m];
    const Action& sent = program.all_actions()[message.send_action];
    channel[m] = message.previous >= 0
                     ? channel[as_size(message.previous)]
                     : candidates_.channel_of(proposal.edited.originals[message.send.index()], sent);
    credits[m] = proposal.credits[as_size(channel[m])];
  }
  const WaitEvents events(graph, credits);
  const auto cycles = events.cycles(program);
  for (const std::vector<Event>& cycle : cycles) {
    Breakers breakers(*this, {proposal, graph, events, channel});
    const std::vector<Choice> choices = breakers.of(cycle);
    if (choices.empty()) {
      return NoRepair{{"none of the changes asked for breaks this cycle of waits:", breakers.text(cycle)}};
    }
    set_.require(choices, breakers.text(cycle));
  }
  return !cycles.empty();
}

void Search::exclude(const Proposal& proposal) {
  std::vector<int> numbers;
  for (const Candidate& c : proposal.changes) numbers.push_back(numbers_.at(c));
  set_.require(none_of_all(numbers));
}

Change Search::describe(const Candidate& candidate) const {
  Change change{.kind = candidate.kind, .before = candidate.before, .credits = candidate.level};
  if (candidate.what.valid()) change.what = named_instruction(input_.program, candidate.what);
  if (candidate.anchor.valid()) change.other = named_instruction(input_.program, candidate.anchor);
  if (candidate.channel < 0) return change;
  const ChannelKey& key = candidates_.channels()[as_size(candidate.channel)];
  change.communicator = input_.program.communicator(key.communicator).name;
  change.source = key.source;
  change.destination = key.destination;
  return change;
}

}  // namespace ppsim::verifier::repairing
