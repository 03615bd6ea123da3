// Figures as papers and release notes give them, each with the name of its metric.

#include "given_run.hpp"
#include "metric.hpp"
#include "readers.hpp"

namespace ppsim::planner {
namespace {

/// The software that sources describe, by what is in their name.
constexpr std::pair<std::string_view, std::string_view> kStackOfSource[] = {
    {"2104.04473", "megatron-2021"},
    {"2205.05198", "megatron-2022"},
    {"torchtitan", "torchtitan"},
    {"maxtext", "maxtext"},
    {"vtrain", "deepspeed"},
    {"deepspeed", "deepspeed"},
    {"dgxc-benchmarking v25.01", "nemo-mixture"}};

std::string usual_stack(const std::string& source) {
  for (const auto& [part, stack] : kStackOfSource) {
    if (lower_case(source).find(part) != std::string::npos) return std::string(stack);
  }
  return "megatron-core";
}

/// The key of a run among those of its source.
std::string published_label(const SheetRow& row) {
  std::string label = row.text("model");
  if (!row.text("gpus").empty()) label += ", " + row.text("gpus") + " GPUs";
  if (!row.text("tp").empty()) label += ", tp " + row.text("tp");
  if (!row.text("pp").empty()) label += " pp " + row.text("pp");
  if (!row.text("vp").empty() && row.text("vp") != "1") label += " vp " + row.text("vp");
  if (!row.text("recompute").empty()) label += ", recompute " + row.text("recompute");
  return label + ", " + row.text("metric");
}

/// The value of the metric for the run; a metric that cannot be compared takes its place.
void set_figure(const std::string& metric, double value, MeasuredRow& result) {
  const auto* run = std::get_if<RunDescription>(&result.run);
  if (const auto unit = memory_unit(metric)) {
    result.memory.push_back({.rank = {}, .bytes = value * *unit});
  } else if (!is_step_metric(metric)) {
    result.run = NotRun{"the metric " + metric + " is no time of a step and no memory of a GPU (expected " +
                        known_metrics() + ")"};
  } else if (run != nullptr) {
    result.seconds = step_seconds(metric, value, *run);
  }
}

}  // namespace

MeasuredRow read_published(SheetRow& row) {
  GivenRun given = given_by_options(row, "gpus", "seq");
  const std::string source = row.text("source");
  read_software(row, usual_stack(source), given);
  MeasuredRow result{.source = source, .label = published_label(row), .run = described(given)};
  const auto value = row.positive("value");
  if (!value) row.refuse("value", "a measurement is missing", "a number above 0");
  if (value) set_figure(row.text("metric"), *value, result);
  return result;
}

}  // namespace ppsim::planner
