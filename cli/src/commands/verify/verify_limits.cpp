#include <algorithm>
#include <array>
#include <iostream>

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

Json all_unknown(const VerifyRequest& request, const std::string& reason) {
  Json properties = Json::object();
  for (const PropertyInfo& info : property_registry()) {
    if (is_asked(request, info))
      properties[std::string(info.name)] = {{"verdict", "unknown"}, {"reason", reason}};
  }
  return properties;
}

int say_undecided(const VerifyRequest& request, const std::string& reason, const Output& output) {
  const Json properties = all_unknown(request, reason);
  std::vector<std::vector<std::string>> rows = {{"property", "verdict"}};
  for (const auto& [name, unknown] : std::get<Json::Object>(properties.value()))
    rows.push_back({name, "unknown"});
  if (output.json) {
    output.print({{"properties", properties}});
  } else {
    std::cout << table_text(rows, Align::left) << "\nNothing is decided: " << reason << ". Try again and "
              << what_to_raise({reason}) << ".\n";
  }
  return kUnknown;
}

}  // namespace ppsim::cli
