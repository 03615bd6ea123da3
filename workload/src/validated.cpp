#include "ppsim/workload/validated.hpp"

#include <algorithm>
#include <array>
#include <iomanip>
#include <sstream>

namespace ppsim::workload {
namespace {

constexpr auto kClasses = std::to_array<ValidatedClass>({
    {.mixture = false, .gpu = "a100-sxm-80gb", .dtype = DataType::bf16, .runs = 124, .mean_percent = 6.6},
    {.mixture = false, .gpu = "a100-sxm-40gb", .dtype = DataType::bf16, .runs = 78, .mean_percent = 7.4},
    {.mixture = false, .gpu = "h100-sxm-80gb", .dtype = DataType::bf16, .runs = 55, .mean_percent = 6.7},
    {.mixture = false, .gpu = "h100-sxm-80gb", .dtype = DataType::fp8, .runs = 2, .mean_percent = 0.0},
    {.mixture = true, .gpu = "h100-sxm-80gb", .dtype = DataType::bf16, .runs = 6, .mean_percent = 4.6},
    {.mixture = true, .gpu = "h100-sxm-80gb", .dtype = DataType::fp8, .runs = 5, .mean_percent = 15.3},
    {.mixture = false, .gpu = "b200-sxm", .dtype = DataType::bf16, .runs = 16, .mean_percent = 2.4},
    {.mixture = true, .gpu = "b200-sxm", .dtype = DataType::bf16, .runs = 8, .mean_percent = 8.8},
    {.mixture = true, .gpu = "b200-sxm", .dtype = DataType::fp8, .runs = 5, .mean_percent = 5.2},
    {.mixture = false, .gpu = "gb200", .dtype = DataType::fp8, .runs = 5, .mean_percent = 1.9},
    {.mixture = false, .gpu = "gb200", .dtype = DataType::nvfp4, .runs = 5, .mean_percent = 7.8},
    {.mixture = true, .gpu = "gb200", .dtype = DataType::bf16, .runs = 2, .mean_percent = 10.5},
    {.mixture = true, .gpu = "gb200", .dtype = DataType::fp8, .runs = 10, .mean_percent = 9.1},
});

}  // namespace

std::string class_name(const ValidatedClass& validated) {
  std::string name = validated.mixture ? "mixture of experts, " : "dense, ";
  return name + std::string(validated.gpu) + ", " + std::string(data_type_name(validated.dtype));
}

std::optional<ValidatedClass> nearest_class(const Workload& workload) {
  const bool mixture = workload.model.experts > 0;
  const auto like = [&](const ValidatedClass& c) {
    return c.mixture == mixture && c.gpu == workload.cluster.gpu.name;
  };
  const auto same = std::ranges::find_if(
      kClasses, [&](const ValidatedClass& c) { return like(c) && c.dtype == workload.parallelism.dtype; });
  if (same != kClasses.end()) return *same;
  const auto near = std::ranges::find_if(kClasses, like);
  return near == kClasses.end() ? std::nullopt : std::optional(*near);
}

std::string summary(const Workload& workload) {
  const Parallelism& parallelism = workload.parallelism;
  std::ostringstream text;
  const std::string domains = workload.cluster.domains_text();
  text << workload.model.name << ", " << workload.model.layers << " layers, sequence ";
  if (parallelism.sequence > 0) {
    text << parallelism.sequence;
  } else {
    text << workload.model.sequence << " (the model's own)";
  }
  text << ", " << parallelism << ", " << parallelism.microbatches() << " microbatches, "
       << data_type_name(parallelism.dtype) << ", on " << workload.cluster.nodes << " x "
       << workload.cluster.node.name << (domains.empty() ? "" : " (" + domains + ")") << ", as "
       << workload.stack.name << " does it";
  if (!workload.calibration.empty()) text << ", calibrated by " << calibration_hash(workload.calibration);
  return text.str();
}

std::string not_modelled(const Workload& workload) {
  std::string text =
      "links shared by several groups at once, slow GPUs and links, reading of data from storage, "
      "checkpoints";
  if (workload.model.experts > 0) text += ", experts that get more tokens than others";
  return text;
}

std::string known_error(const Workload& workload) {
  const auto nearest = nearest_class(workload);
  const std::string kind = workload.model.experts > 0 ? "mixture of experts" : "dense model";
  if (!nearest) return "no measurement of a " + kind + " on " + workload.cluster.gpu.name;
  std::ostringstream text;
  if (!workload.calibration.empty()) text << "not known of calibrated costs; without calibration ";
  if (nearest->dtype != workload.parallelism.dtype)
    text << "none in " << data_type_name(workload.parallelism.dtype) << "; ";
  text << class_name(*nearest) << ": " << std::fixed << std::setprecision(1) << nearest->mean_percent
       << " % mean over " << nearest->runs << " runs";
  return text.str();
}

}  // namespace ppsim::workload
