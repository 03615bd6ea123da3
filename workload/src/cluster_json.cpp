#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>

#include "io/json/file.hpp"
#include "ppsim/core/text/nearest.hpp"
#include "ppsim/workload/cluster.hpp"

namespace ppsim::workload {
namespace {

using nlohmann::json;

GpuDescription read_gpu(const json& object) {
  GpuDescription gpu;
  gpu.name = object.value("name", "custom");
  gpu.bf16_tflops = object.at("bf16_tflops");
  gpu.bf16_achievable_tflops = object.value("bf16_achievable_tflops", 0.8 * gpu.bf16_tflops);
  gpu.fp8_tflops = object.value("fp8_tflops", 0.0);
  gpu.fp8_achievable_tflops = object.value("fp8_achievable_tflops", 0.7 * gpu.fp8_tflops);
  gpu.memory_bytes = object.at("memory_bytes");
  gpu.memory_tbps = object.at("memory_tbps");
  gpu.nvlink_gbytes = object.at("nvlink_gbytes_per_s");
  gpu.host_gbytes = object.value("host_gbytes_per_s", gpu.host_gbytes);
  gpu.multiprocessors = object.value("multiprocessors", gpu.multiprocessors);
  return gpu;
}

bool is_near(double value, double expected) {
  constexpr double kTolerance = 0.02;
  return std::abs(value - expected) <= kTolerance * expected;
}

/// Data sheets give rates of products with half of a matrix zero, which no training has: twice the dense rate
/// of a GPU that is known by its memory.
Expected<void> check_dense(const JsonFile& file, const GpuDescription& gpu) {
  for (const GpuDescription& known : gpu_presets()) {
    if (!is_near(gpu.memory_tbps, known.memory_tbps)) continue;
    for (const auto& [key, rate] : {std::pair{"bf16_tflops", &GpuDescription::bf16_tflops},
                                    {"fp8_tflops", &GpuDescription::fp8_tflops}}) {
      if (known.*rate <= 0 || !is_near(gpu.*rate, 2 * known.*rate)) continue;
      std::ostringstream found;
      std::ostringstream expected;
      found << gpu.*rate;
      expected << known.*rate << ", as " << known.name << " has";
      return file.error_at({"gpu", key}, "a rate with sparsity, twice that of dense products", found.str(),
                           expected.str());
    }
  }
  return {};
}

/// Checks that the achievable rates of matrix products are at most the peak.
Expected<void> check_achievable(const JsonFile& file, const GpuDescription& gpu) {
  for (const auto& [key, achieved, peak] :
       {std::tuple{"bf16_achievable_tflops", gpu.bf16_achievable_tflops, gpu.bf16_tflops},
        std::tuple{"fp8_achievable_tflops", gpu.fp8_achievable_tflops, gpu.fp8_tflops}}) {
    if (achieved <= peak) continue;
    std::ostringstream found;
    std::ostringstream expected;
    found << achieved;
    expected << "at most the peak, " << peak;
    return file.error_at({"gpu", key}, "more than the GPU can do", found.str(), expected.str());
  }
  return {};
}

/// The GPU that "gpu" names or describes.
Expected<GpuDescription> gpu_of(const JsonFile& file) {
  const json& gpu = file.root().at("gpu");
  if (gpu.is_object()) {
    GpuDescription described = read_gpu(gpu);
    PPSIM_RETURN_IF_ERROR(check_dense(file, described));
    PPSIM_RETURN_IF_ERROR(check_achievable(file, described));
    return described;
  }
  for (const GpuDescription& preset : gpu_presets()) {
    if (preset.name == gpu) return preset;
  }
  return file.error_at({"gpu"}, "an unknown GPU", gpu.dump(-1, ' ', true, json::error_handler_t::replace),
                       "an object, or one of " + joined(names_in(gpu_presets())));
}

}  // namespace

Expected<ClusterDescription> cluster_from_json(std::string_view text, const std::string& file, int nodes) {
  if (nodes < 1) {
    return make_error(ErrorCode::bad_argument, "a cluster needs at least one node",
                      {.found = std::to_string(nodes), .expected = "1 or more"});
  }
  PPSIM_ASSIGN_OR_RETURN(const auto parsed, JsonFile::parse(text, file));
  PPSIM_RETURN_IF_ERROR(parsed.validate("cluster"));
  PPSIM_ASSIGN_OR_RETURN(auto gpu, gpu_of(parsed));
  const json& root = parsed.root();
  ClusterDescription cluster;
  cluster.nodes = nodes;
  cluster.gpu = std::move(gpu);
  cluster.node.name = root.value("name", "custom");
  cluster.node.gpu = cluster.gpu.name;
  cluster.node.gpus = root.at("gpus_per_node");
  cluster.node.nvlink_domain = root.value("nvlink_domain", cluster.node.gpus);
  cluster.node.node_gbytes = root.at("node_gbytes_per_s").get<double>();
  if (root.contains("latency_us")) cluster.node.latency_us = root.at("latency_us").get<double>();
  if (root.contains("nvlink_sums")) cluster.node.nvlink_sums = root.at("nvlink_sums").get<double>();
  return cluster;
}

}  // namespace ppsim::workload
