#include <algorithm>
#include <array>
#include <iostream>

#include "processes/interruption.hpp"
#include "verify_parts.hpp"

namespace ppsim::cli {
namespace {

/// A limit asks for its property.
bool has_limit(const VerifyRequest& request, Property property) {
  if (property == Property::memory) return !request.memory_limit.empty();
  return property == Property::makespan && !request.makespan_limit.empty();
}

bool is_asked(const VerifyRequest& request, const PropertyInfo& info) {
  if (has_limit(request, info.property)) return true;
  if (!request.properties.empty()) {
    const std::string names = "," + request.properties + ",";
    return names.find("," + std::string(info.name) + ",") != std::string::npos;
  }
  if (request.all_microbatches && !has_all_microbatches_method(info.property)) return false;
  if (info.property == Property::memory) return request.costs.given();
  if (info.property == Property::makespan) return false;
  return info.by_default;
}

}  // namespace

bool VerifyRequest::is_late() const {
  return std::chrono::steady_clock::now() - start >= std::chrono::duration<double>(timeout_s);
}

double VerifyRequest::remaining_s() const {
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  return std::max(timeout_s - taken.count(), 0.001);
}

std::string what_to_raise(const std::vector<std::string>& reasons) {
  constexpr std::array<std::pair<const char*, const char*>, 4> kOptions{{
      {kTimeLimit, "raise --timeout"},
      {kMemoryLimit, "raise --memory-budget"},
      {kStateLimit, "raise --state-limit, or choose a --resident that is not reached"},
      {kSampleLimit, "raise --sample-limit"},
  }};
  std::string text;
  for (const auto& [limit, option] : kOptions) {
    const auto hit = [limit = limit](const std::string& reason) {
      return reason.find(limit) != std::string::npos;
    };
    if (std::ranges::any_of(reasons, hit)) text += (text.empty() ? "" : "; ") + std::string(option);
  }
  return text;
}

void DecidedSoFar::add(const Program& program, const PropertyResult& result) {
  Item item{result, result_json(program, result), result_text(program, result)};
  const std::lock_guard lock(mutex_);
  items_.push_back(std::move(item));
}

std::optional<DecidedSoFar::Item> DecidedSoFar::find(Property property) const {
  const std::lock_guard lock(mutex_);
  const auto item = std::ranges::find(items_, property, [](const Item& i) { return i.result.property; });
  return item == items_.end() ? std::nullopt : std::optional(*item);
}

namespace {

/// All properties asked for, in the order of the registry; undecided ones are unknown for this reason.
std::vector<DecidedSoFar::Item> items_of(const VerifyRequest& request, const std::string& reason) {
  std::vector<DecidedSoFar::Item> items;
  for (const PropertyInfo& info : property_registry()) {
    if (!is_asked(request, info)) continue;
    const auto decided = request.decided ? request.decided->find(info.property) : std::nullopt;
    items.push_back(decided.value_or(
        DecidedSoFar::Item{{.property = info.property, .verdict = Unknown{reason}, .method = {}, .notes = {}},
                           {{"verdict", "unknown"}, {"reason", reason}},
                           {}}));
  }
  return items;
}

Json properties_json(const std::vector<DecidedSoFar::Item>& items) {
  Json properties = Json::object();
  for (const auto& item : items) properties[std::string(property_name(item.result.property))] = item.json;
  return properties;
}

bool is_unknown(const DecidedSoFar::Item& item) {
  return std::holds_alternative<Unknown>(item.result.verdict);
}

void print_items(const std::vector<DecidedSoFar::Item>& items, const std::string& reason) {
  TextTable rows = {{"property", "verdict", "method"}};
  std::string texts;
  for (const auto& [result, json, text] : items) {
    rows.push_back(verdict_cells(result));
    texts += text;
  }
  std::cout << table_text(rows, Align::left) << texts << '\n';
  const bool nothing = std::ranges::all_of(items, is_unknown);
  std::cout << (nothing ? "Nothing is decided: " : "The rest is not decided: ") << reason
            << ". Try again and " << what_to_raise({reason}) << ".\n";
}

}  // namespace

void tell_decided(const VerifyRequest& request) {
  const std::vector<DecidedSoFar::Item> items = items_of(request, "interrupted");
  std::string decided;
  for (const auto& [result, json, text] : items) {
    if (std::holds_alternative<Unknown>(result.verdict)) continue;
    decided += (decided.empty() ? "decided before: " : ", ") + std::string(property_name(result.property)) +
               ' ' + std::string(verdict_name(result.verdict));
  }
  KnownSoFar known{.members = {{"properties", properties_json(items)}}};
  if (!decided.empty()) known.note = decided;
  tell_when_interrupted(known);
}

int say_limit(const VerifyRequest& request, const std::string& reason, const Output& output) {
  const std::vector<DecidedSoFar::Item> items = items_of(request, reason);
  if (output.json) {
    output.print({{"properties", properties_json(items)}});
  } else {
    print_items(items, reason);
  }
  VerifyReport report;
  for (const auto& item : items) report.results.push_back(item.result);
  return verdict_exit(report);
}

}  // namespace ppsim::cli
