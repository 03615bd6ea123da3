#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "io/csv_cells.hpp"
#include "ppsim/planner/study.hpp"

namespace ppsim::planner {
namespace {

constexpr std::array<const char*, 11> kExported = {
    "step_ns",    "layers_ns",          "bubble_ns",         "communication_ns",        "step_end_ns",
    "peak_bytes", "memory_limit_bytes", "tokens_per_second", "model_flops_utilization", "gpu_hours",
    "min_bytes"};

bool is_whole(double value) { return std::floor(value) == value && std::abs(value) < 9e15; }

std::string number_text(double value) {
  if (is_whole(value)) return std::to_string(static_cast<long long>(value));
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

/// Names that some point has.
std::set<std::string> names_of(const Study& study) {
  std::set<std::string> names;
  for (const StudyPoint& point : study.points) {
    for (const auto& [name, value] : point.values) names.insert(name);
  }
  return names;
}

std::string percent_above(double value, double base) {
  char text[32];
  std::snprintf(text, sizeof text, "%+.2f %%", (value / base - 1) * 100);
  return text;
}

/// The objectives that got worse; empty: none.
std::string what_is_worse(const StoredResult& now, const StoredResult& before, double tolerance) {
  if (before.status != "fits") return "";
  if (now.status != "fits")
    return "it fitted and now " + (now.status == "impossible" ? now.reason : "does not");
  for (const char* name : {"step_ns", "peak_bytes"}) {
    const double own = now.figure(name);
    const double base = before.figure(name);
    if (own > base * (1 + tolerance))
      return std::string(name) + " is " + number_text(own) + ", was " + number_text(base) + ", " +
             percent_above(own, base);
  }
  return "";
}

}  // namespace

std::string study_csv(const Study& study, const std::map<std::string, StoredResult>& results) {
  const std::set<std::string> names = names_of(study);
  std::string text;
  for (const std::string& name : names) text += name + ",";
  text += "status,reason";
  for (const char* name : kExported) text += std::string(",") + name;
  text += ",megatron_layout\n";
  for (const StudyPoint& point : study.points) {
    const auto found = results.find(point.key());
    if (found == results.end()) continue;
    for (const std::string& name : names) {
      const auto value = point.values.find(name);
      text += (value == point.values.end() ? "" : csv_cell(value->second)) + ",";
    }
    text += found->second.status + "," + csv_cell(found->second.reason);
    for (const char* name : kExported) {
      const auto value = found->second.figures.find(name);
      text += "," + (value == found->second.figures.end() ? "" : number_text(value->second));
    }
    text += "," + csv_cell(found->second.layout) + "\n";
  }
  return text;
}

std::string study_jsonl(const Study& study, const std::map<std::string, StoredResult>& results) {
  std::string text;
  for (const StudyPoint& point : study.points) {
    const auto found = results.find(point.key());
    if (found == results.end()) continue;
    nlohmann::ordered_json line = {{"point", point.values}, {"status", found->second.status}};
    if (!found->second.reason.empty()) line["reason"] = found->second.reason;
    for (const char* name : kExported) {
      const auto value = found->second.figures.find(name);
      if (value == found->second.figures.end()) continue;
      if (is_whole(value->second)) {
        line[name] = static_cast<std::int64_t>(value->second);
      } else {
        line[name] = value->second;
      }
    }
    if (!found->second.layout.empty()) line["megatron_layout"] = found->second.layout;
    text += line.dump() + "\n";
  }
  return text;
}

StudyComparison compare_studies(const Study& study, const std::map<std::string, StoredResult>& results,
                                const std::map<std::string, StoredResult>& baseline, double tolerance) {
  // A baseline of another version has other keys.
  std::map<std::string, const StoredResult*> earlier;
  for (const auto& [key, result] : baseline) earlier[result.point] = &result;
  StudyComparison comparison;
  for (const StudyPoint& point : study.points) {
    const auto now = results.find(point.key());
    if (now == results.end()) continue;
    const auto before = earlier.find(now->second.point);
    if (before == earlier.end()) continue;
    ++comparison.compared;
    if (std::string what = what_is_worse(now->second, *before->second, tolerance); !what.empty())
      comparison.regressions.push_back({point, std::move(what)});
  }
  return comparison;
}

}  // namespace ppsim::planner
