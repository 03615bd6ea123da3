#include <algorithm>
#include <array>
#include <iostream>
#include <sstream>

#include "output/counterexample_json.hpp"
#include "ppsim/planner/files.hpp"
#include "verify_parts.hpp"

namespace ppsim::cli {
namespace {

/// Without --repair the report of a deadlock says what removes it where that is found at once.
constexpr std::size_t kSmall = 10'000;  // instructions
constexpr double kSmallLimitS = 10;

std::string_view kind_name(ChangeKind kind) {
  constexpr std::array<std::string_view, 4> kNames{"move", "group", "split", "credit"};
  return kNames[static_cast<std::size_t>(kind)];
}

bool of_list(const Change& change) {
  return change.kind == ChangeKind::move || change.kind == ChangeKind::group;
}

Json change_json(const Change& change) {
  Json json = {{"kind", kind_name(change.kind)}, {"text", to_string(change)}};
  if (of_list(change)) {
    json["what"] = instruction_json(change.what);
    json[change.kind == ChangeKind::group ? "with"
         : change.before                  ? "before"
                                          : "behind"] = instruction_json(change.other);
  } else {
    json["communicator"] = change.communicator;
    json["source"] = change.source.value();
    json["destination"] = change.destination.value();
  }
  if (change.kind == ChangeKind::credit) json["messages"] = change.credits;
  return json;
}

Json changes_json(const std::vector<Change>& changes) {
  Json list = Json::array();
  for (const Change& change : changes) list.push_back(change_json(change));
  return list;
}

void print_changes(const std::vector<Change>& changes) {
  constexpr std::size_t kMaxMoves = 12;
  for (std::size_t i = 0; i < std::min(changes.size(), kMaxMoves); ++i)
    std::cout << "  " << to_string(changes[i]) << '\n';
  if (changes.size() > kMaxMoves)
    std::cout << "  and " << changes.size() - kMaxMoves << " more (--json has all)\n";
}

void print(const RepairAnswer& answer, bool mixes) {
  if (const auto* repaired = std::get_if<Repaired>(&answer)) {
    std::cout << (mixes ? "\nChanges that undo the mismatch and remove deadlocks, verified again:\n"
                        : "\nThe smallest change that removes the deadlock, verified again:\n");
    print_changes(repaired->changes);
    for (const Property property : repaired->still_refuted())
      std::cout << "  " << property_name(property)
                << " is still refuted: a repair removes deadlocks and mismatches only\n";
  } else if (const auto* none = std::get_if<NoRepair>(&answer)) {
    std::cout << "\nNo change to the order, to groups or to communicators mends this:\n";
    for (const std::string& line : none->why) std::cout << "  " << line << '\n';
  } else {
    std::cout << "\nNo repair is known: " << std::get<Unknown>(answer).reason << '\n';
  }
}

void print(const CreditsAnswer& answer) {
  const auto* fewest = std::get_if<FewestCredits>(&answer);
  if (fewest == nullptr || fewest->channels.empty()) return;
  std::cout << "Or a transport with --buffers " << fewest->everywhere << ", or one that does no more than\n";
  print_changes(fewest->channels);
}

bool is_refuted(const VerifyReport& report, Property property) {
  const PropertyResult* result = report.find(property);
  return result != nullptr && std::holds_alternative<Refuted>(result->verdict);
}

}  // namespace

Expected<std::vector<ChangeKind>> kinds_of(const std::string& names) {
  std::vector<ChangeKind> kinds;
  std::istringstream items(names);
  for (std::string item; std::getline(items, item, ',');) {
    if (item == "moves") {
      kinds.push_back(ChangeKind::move);
    } else if (item == "groups") {
      kinds.push_back(ChangeKind::group);
    } else if (item == "splits") {
      kinds.push_back(ChangeKind::split);
    } else {
      return make_error(ErrorCode::bad_argument, "unknown --repair-with",
                        {.found = item, .expected = "moves, groups, splits"});
    }
  }
  return kinds;
}

std::optional<Remedy> find_remedy(const VerifyRequest& request, const VerifyAnswer& answer) {
  const bool wanted = !request.repair.empty();
  const bool mixes = is_refuted(answer.report, Property::matched);
  const bool hangs = is_refuted(answer.report, Property::deadlock_free);
  if (!(hangs || (mixes && wanted)) || (!wanted && answer.program().size() > kSmall)) return std::nullopt;
  RepairOptions options;
  if (!request.repair_with.empty()) options.kinds = kinds_of(request.repair_with).value();
  options.verify = answer.asked;
  options.verify.timeout_s = wanted ? request.remaining_s() : std::min(request.remaining_s(), kSmallLimitS);
  Remedy remedy{repair(answer.program(), options), Unknown{}, mixes};
  if (mixes) return remedy;
  if (!std::holds_alternative<NoRepair>(remedy.repair) || absences(answer.program()).empty())
    remedy.credits = fewest_credits(answer.program(), answer.asked.capabilities, options.verify.timeout_s);
  return remedy;
}

bool may_be_repaired(const VerifyReport& report, const std::optional<Remedy>& remedy) {
  if (remedy && remedy->mixes) return std::holds_alternative<Repaired>(remedy->repair);
  const PropertyResult* result = report.find(Property::deadlock_free);
  const auto* refuted = result == nullptr ? nullptr : std::get_if<Refuted>(&result->verdict);
  if (refuted == nullptr || std::holds_alternative<ResidencyHang>(refuted->counterexample)) return false;
  return !remedy || !std::holds_alternative<NoRepair>(remedy->repair);
}

Json remedy_json(const Remedy& remedy) {
  Json json;
  if (const auto* repaired = std::get_if<Repaired>(&remedy.repair)) {
    json["changes"] = changes_json(repaired->changes);
    json["still_refuted"] = Json::array();
    for (const Property property : repaired->still_refuted())
      json["still_refuted"].push_back(property_name(property));
  } else if (const auto* none = std::get_if<NoRepair>(&remedy.repair)) {
    json["none"] = none->why;
  } else {
    json["unknown"] = std::get<Unknown>(remedy.repair).reason;
  }
  if (const auto* fewest = std::get_if<FewestCredits>(&remedy.credits)) {
    json["buffers"] = {{"messages_on_every_channel", fewest->everywhere},
                       {"fewest", changes_json(fewest->channels)}};
  }
  return json;
}

void print_remedy(const Remedy& remedy) {
  print(remedy.repair, remedy.mixes);
  print(remedy.credits);
}

Expected<bool> write_repaired(const VerifyRequest& request, const std::optional<Remedy>& remedy) {
  const std::string& file = request.repair;
  const auto* repaired = remedy ? std::get_if<Repaired>(&remedy->repair) : nullptr;
  if (file.empty() || repaired == nullptr) return false;
  const bool has_waits = std::ranges::any_of(repaired->program.instructions(),
                                             [](const Instruction& item) { return item.after_count > 0; });
  const std::optional<Target>& target = request.input.loaded_by;
  const auto text =
      target ? text_for(*target, repaired->program, file)
             : ir_text(repaired->program, file, has_waits ? CsvDialect::torch_2_15 : CsvDialect::torch);
  if (!text) {
    Error error = text.error();
    error.message = "the repair is not written: " + error.message;
    error.place.found = file;
    error.place.expected = "--repair FILE.json, which holds every Program";
    return tl::unexpected(std::move(error));
  }
  return write_text_file(file, *text).map([] { return true; });
}

}  // namespace ppsim::cli
