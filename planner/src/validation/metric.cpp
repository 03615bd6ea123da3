#include "metric.hpp"

#include <algorithm>
#include <array>

#include "ppsim/core/ir/check.hpp"

namespace ppsim::planner {
namespace {

/// Elements of the matrices that a token meets in a layer: its parameters without those of the norms.
double product_parameters(const ModelDescription& model, std::int64_t layer) {
  std::int64_t norms = 2 * model.hidden;
  if (model.architecture == Architecture::moe_mla) norms += model.q_lora + model.kv_lora;
  return static_cast<double>(active_layer_parameters(model, layer) - norms);
}

/// Channels over which a score is summed, and over which values are.
double attention_channels(const ModelDescription& model) {
  if (model.architecture != Architecture::moe_mla)
    return static_cast<double>(2 * model.head_dim * model.heads);
  return static_cast<double>((model.qk_nope + model.qk_rope + model.v_head) * model.heads);
}

double tokens(const RunDescription& run) {
  return static_cast<double>(run.global_batch_size) * static_cast<double>(run.sequence);
}

double seconds_at(double tflops_per_gpu, const RunDescription& run, const FlopCount& count) {
  const double all = tokens(run) * flops_per_token(run.model, run.sequence, count);
  return all / (tflops_per_gpu * 1e12 * run.gpus);
}

using Seconds = double (*)(double value, const RunDescription& run);

constexpr auto kStepMetrics = std::to_array<std::pair<std::string_view, Seconds>>({
    {"iter_seconds", [](double value, const RunDescription&) { return value; }},
    {"step_ms", [](double value, const RunDescription&) { return value * 1e-3; }},
    {"tokens/s/GPU",
     [](double value, const RunDescription& run) { return tokens(run) / (value * run.gpus); }},
    {"tokens/s", [](double value, const RunDescription& run) { return tokens(run) / value; }},
    {"samples/s", [](double value, const RunDescription& run) { return run.global_batch_size / value; }},
    {"samples/s/GPU",
     [](double value, const RunDescription& run) { return run.global_batch_size / (value * run.gpus); }},
    {"model TFLOP/s/GPU", [](double value, const RunDescription& run) { return seconds_at(value, run, {}); }},
    {"TFLOP/s/GPU (recompute counted)",
     [](double value,
        const RunDescription& run) { return seconds_at(value, run, {.recomputed = true, .causal = false}); }},
});

constexpr auto kMemoryMetrics = std::to_array<std::pair<std::string_view, double>>(
    {{"GiB", kGiB}, {"allocated GiB", kGiB}, {"GB", 1e9}, {"allocated GB", 1e9}});

}  // namespace

double flops_per_token(const ModelDescription& model, std::int64_t sequence, const FlopCount& count) {
  double layers = 0;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) layers += product_parameters(model, layer);
  const double pairs = static_cast<double>(sequence) / (count.causal ? 2 : 1);
  const double attention = static_cast<double>(model.layers) * attention_channels(model) * pairs;
  const double head = static_cast<double>(model.vocab) * static_cast<double>(model.hidden);
  const int passes = count.recomputed ? 4 : 3;  // the backward is two
  return 2 * (passes * (layers + attention) + 3 * head);
}

std::optional<double> memory_unit(std::string_view metric) {
  for (const auto& [name, unit] : kMemoryMetrics) {
    if (name == metric) return unit;
  }
  return std::nullopt;
}

bool is_step_metric(std::string_view metric) {
  return std::ranges::any_of(kStepMetrics, [&](const auto& known) { return known.first == metric; });
}

std::string known_metrics() {
  std::string names;
  for (const auto& [name, seconds] : kStepMetrics) names += std::string(name) + ", ";
  for (const auto& [name, unit] : kMemoryMetrics) names += std::string(name) + ", ";
  return names.substr(0, names.size() - 2);
}

double step_seconds(std::string_view metric, double value, const RunDescription& run) {
  const auto known = std::ranges::find(kStepMetrics, metric, [](const auto& one) { return one.first; });
  PPSIM_CHECK(known != kStepMetrics.end(), "the metric is one of a step");
  return known->second(value, run);
}

}  // namespace ppsim::planner
