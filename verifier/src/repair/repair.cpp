#include "ppsim/verifier/repair/repair.hpp"

#include <algorithm>
#include <array>

#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/ir/concatenated.hpp"
#include "repair/align.hpp"
#include "repair/search.hpp"

namespace ppsim::verifier {
namespace {

using repairing::Proposal;
using repairing::Search;

std::string messages_text(const Change& change) {
  return concatenated("from rank ", change.source, " to rank ", change.destination, " on communicator ",
                      change.communicator);
}

std::string place_text(const NamedInstruction& place) {
  return concatenated("rank ", place.rank, ": ", place.action);
}

/// The faults that no change of a repair can mend.
std::vector<std::string> no_matter_of_order(const Program& program) {
  std::vector<std::string> lines = absences(program);
  if (!lines.empty()) {
    lines.insert(lines.begin(), "this is no matter of order between messages that have both ends:");
  }
  return lines;
}

bool asks_for(const VerifyOptions& options, Property property) {
  return options.properties.empty() ||
         std::ranges::find(options.properties, property) != options.properties.end();
}

/// The first property that was proved and is not any more, or deadlock_free.
std::optional<Property> lost(const VerifyReport& before, const VerifyReport& after) {
  if (!after.proved(Property::deadlock_free)) return Property::deadlock_free;
  for (const PropertyResult& result : before.results) {
    if (before.proved(result.property) && !after.proved(result.property)) return result.property;
  }
  return std::nullopt;
}

std::vector<Change> described(const Search& search, const Proposal& proposal) {
  std::vector<Change> changes;
  for (const repairing::Candidate& c : proposal.changes) changes.push_back(search.describe(c));
  std::ranges::stable_sort(changes, {}, [](const Change& c) {
    return std::tuple(c.kind, c.what.instruction, c.source, c.destination, c.communicator);
  });
  return changes;
}

RepairAnswer search_repair(const Program& program, const RepairOptions& options, const Deadline& deadline) {
  VerifyOptions asked = options.verify;
  if (!asks_for(asked, Property::deadlock_free)) asked.properties.push_back(Property::deadlock_free);
  const VerifyReport before = verify(program, asked);
  if (before.proved(Property::deadlock_free)) return Repaired{{}, program, before};
  Search search({program, asked.capabilities, options.kinds, deadline});
  while (true) {
    auto found = search.next();
    if (auto* none = std::get_if<NoRepair>(&found)) return std::move(*none);
    if (auto* unknown = std::get_if<Unknown>(&found)) return std::move(*unknown);
    auto& proposal = std::get<Proposal>(found);
    asked.timeout_s = deadline.remaining_s();
    VerifyReport report = verify(proposal.edited.program, asked);
    if (deadline.over()) return Unknown{"time limit reached"};
    if (!lost(before, report))
      return Repaired{described(search, proposal), std::move(proposal.edited.program), std::move(report)};
    search.exclude(proposal);
  }
}

bool finishes(const Program& program, TransportCapabilities capabilities, int credits) {
  capabilities.credits = credits == 0 ? std::nullopt : std::optional(credits);
  return AnalyzedProgram(program, capabilities).order().complete;
}

/// The smallest number of credits for every channel; nothing when as many as there are messages do not help.
std::optional<int> credits_everywhere(const Program& program, const TransportCapabilities& capabilities) {
  if (finishes(program, capabilities, 0)) return 0;
  int enough = 1;
  while (!finishes(program, capabilities, enough)) {
    if (as_size(enough) > program.size()) return std::nullopt;
    enough *= 2;
  }
  int few = enough / 2;  // does not do
  while (enough - few > 1) {
    const int middle = few + (enough - few) / 2;
    (finishes(program, capabilities, middle) ? enough : few) = middle;
  }
  return enough;
}

/// Of each channel only its highest level: the levels below it go without saying.
std::vector<Change> highest_levels(const std::vector<Change>& changes) {
  std::vector<Change> result;
  for (const Change& change : changes) {
    const auto same = std::ranges::find_if(result, [&](const Change& c) {
      return c.communicator == change.communicator && c.source == change.source &&
             c.destination == change.destination;
    });
    if (same == result.end()) {
      result.push_back(change);
    } else {
      same->credits = std::max(same->credits, change.credits);
    }
  }
  return result;
}

}  // namespace

std::vector<Property> Repaired::still_refuted() const {
  std::vector<Property> properties;
  for (const PropertyResult& result : report.results) {
    if (std::holds_alternative<Refuted>(result.verdict)) properties.push_back(result.property);
  }
  return properties;
}

std::string to_string(const Change& change) {
  switch (change.kind) {
    case ChangeKind::move:
      return "move " + place_text(change.what) + (change.before ? " before " : " behind ") +
             change.other.action;
    case ChangeKind::group:
      return "group " + place_text(change.what) + " and " + change.other.action;
    case ChangeKind::split:
      return "give the messages " + messages_text(change) + " a communicator and a queue of their own";
    case ChangeKind::credit:
      return "buffer " + std::to_string(change.credits) + (change.credits == 1 ? " message " : " messages ") +
             messages_text(change);
  }
  PPSIM_CHECK(false, "unknown kind of change");
}

RepairAnswer repair(const Program& program, const RepairOptions& options) {
  PPSIM_CHECK(std::ranges::find(options.kinds, ChangeKind::credit) == options.kinds.end(),
              "credits change no Program");
  if (options.verify.capabilities.residency)
    return Unknown{"a residency limit leaves choices that a repair does not look at"};
  const Deadline deadline(options.verify.timeout_s, options.verify.stopped);
  auto lines = no_matter_of_order(program);
  if (lines.empty()) return search_repair(program, options, deadline);
  if (std::ranges::find(options.kinds, ChangeKind::move) == options.kinds.end())
    return NoRepair{std::move(lines)};
  auto aligned = repairing::receives_in_order(program);
  if (!aligned || !no_matter_of_order(aligned->program).empty()) return NoRepair{std::move(lines)};
  RepairAnswer answer = search_repair(aligned->program, options, deadline);
  if (auto* repaired = std::get_if<Repaired>(&answer))
    repaired->changes.insert(repaired->changes.begin(), aligned->changes.begin(), aligned->changes.end());
  return answer;
}

CreditsAnswer fewest_credits(const Program& program, const TransportCapabilities& capabilities,
                             double timeout_s) {
  if (auto lines = no_matter_of_order(program); !lines.empty()) return NoRepair{std::move(lines)};
  const Deadline deadline(timeout_s);
  TransportCapabilities rendezvous = capabilities;
  rendezvous.credits.reset();
  rendezvous.residency.reset();
  const std::optional<int> everywhere = credits_everywhere(program, rendezvous);
  if (!everywhere) return NoRepair{{"no number of credits helps"}};
  constexpr std::array kKinds{ChangeKind::credit};
  Search search({program, rendezvous, kKinds, deadline});
  auto found = search.next();
  if (auto* none = std::get_if<NoRepair>(&found)) return std::move(*none);
  if (auto* unknown = std::get_if<Unknown>(&found)) return std::move(*unknown);
  return FewestCredits{*everywhere, highest_levels(described(search, std::get<Proposal>(found)))};
}

}  // namespace ppsim::verifier
