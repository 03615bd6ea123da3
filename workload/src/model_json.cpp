#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "io/json/file.hpp"
#include "ppsim/core/text/nearest.hpp"
#include "ppsim/workload/cluster.hpp"
#include "ppsim/workload/model.hpp"

namespace ppsim::workload {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxListed = 1 << 16;

/// Reads keys of one object and remembers the first that is missing or of a wrong type.
class DescriptionReader {
 public:
  DescriptionReader(const json& object, const std::string& file) : object_(object), file_(file) {}

  /// The first of the keys that is present.
  std::optional<std::int64_t> optional_integer(std::initializer_list<const char*> keys) {
    for (const char* key : keys) {
      const auto found = object_.find(key);
      if (found == object_.end() || found->is_null()) continue;
      if (found->is_number_integer()) return found->get<std::int64_t>();
      fail(key, found->dump(), "a whole number");
    }
    return std::nullopt;
  }
  std::int64_t integer(std::initializer_list<const char*> keys) {
    const auto value = optional_integer(keys);
    if (!value) fail(*keys.begin(), "nothing", "a whole number");
    return value.value_or(1);
  }
  std::string text(const char* key, const std::string& otherwise) {
    const auto found = object_.find(key);
    if (found == object_.end()) return otherwise;
    if (found->is_string()) return found->get<std::string>();
    fail(key, found->dump(), "a string");
    return otherwise;
  }
  bool boolean(const char* key, bool otherwise) {
    const auto found = object_.find(key);
    if (found == object_.end()) return otherwise;
    if (found->is_boolean()) return found->get<bool>();
    fail(key, found->dump(), "true or false");
    return otherwise;
  }
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  void fail(const char* key, std::string found, std::string expected) {
    if (error_) return;
    error_ = Error{ErrorCode::bad_file,
                   std::string("key \"") + key + "\" cannot be read",
                   {.file = file_, .found = std::move(found), .expected = std::move(expected)}};
  }
  const json& object_;
  const std::string& file_;
  std::optional<Error> error_;
};

/// Layers that have a window, of `layers`: as "layer_types" says, or every one. Newer files list the types;
/// Gemma's and Qwen2's have a rule instead.
std::vector<bool> windowed_layers(const json& object, DescriptionReader& reader, std::int64_t layers) {
  std::vector<bool> windowed(static_cast<std::size_t>(std::clamp<std::int64_t>(layers, 0, kMaxListed)), true);
  if (const auto types = object.find("layer_types"); types != object.end() && types->is_array()) {
    windowed.clear();
    for (const json& type : *types) windowed.push_back(type == "sliding_attention");
    return windowed;
  }
  const auto pattern = reader.optional_integer({"sliding_window_pattern"});
  const std::string name = reader.text("model_type", "");
  const std::int64_t every = pattern.value_or(name.starts_with("gemma2") ? 2 : 0);
  const auto first = reader.optional_integer({"max_window_layers"}).value_or(0);
  for (std::size_t i = 0; i < windowed.size(); ++i) {
    const auto layer = static_cast<std::int64_t>(i);
    if (every > 0 && (layer + 1) % every == 0) windowed[i] = false;
    if (layer < first) windowed[i] = false;
  }
  return windowed;
}

/// Sets the window where layers have one. Returns whether those layers repeat as is_windowed has them.
bool read_window(const json& object, DescriptionReader& reader, ModelDescription& model) {
  const auto window = reader.optional_integer({"sliding_window"});
  if (!window || !reader.boolean("use_sliding_window", true)) return true;
  const std::vector<bool> windowed = windowed_layers(object, reader, model.layers);
  const auto first = std::ranges::find(windowed, false);
  if (std::ranges::find(windowed, true) == windowed.end()) return true;
  model.window = *window;
  if (first != windowed.end()) model.full_attention_every = first - windowed.begin() + 1;
  for (std::size_t i = 0; i < windowed.size(); ++i) {
    if (windowed[i] != is_windowed(model, static_cast<std::int64_t>(i))) return false;
  }
  return true;
}

/// YaRN without a scale of its own, which is then one of the factor (2309.00071, section 3.4).
bool has_scaled_rotation(const json& object) {
  const auto scaling = object.find("rope_scaling");
  if (scaling == object.end() || !scaling->is_object() || scaling->contains("mscale_all_dim")) return false;
  return scaling->value("rope_type", scaling->value("type", json())) == "yarn";
}

Expected<json> parse_object(std::string_view text, const std::string& file) {
  json parsed = json::parse(text, nullptr, false);
  if (!parsed.is_object()) {
    return make_error(ErrorCode::bad_file, "no JSON object",
                      {.file = file,
                       .found = parsed.is_discarded() ? "malformed JSON" : parsed.type_name(),
                       .expected = "a JSON object"});
  }
  return parsed;
}

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

/// What products reach is at most the peak.
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

Expected<ModelDescription> model_from_config_json(std::string_view text, const std::string& file) {
  PPSIM_ASSIGN_OR_RETURN(const json parsed, parse_object(text, file));
  DescriptionReader reader(parsed, file);
  ModelDescription model;
  model.name = reader.text("model_type", "model");
  model.layers = reader.integer({"num_hidden_layers", "n_layer"});
  model.hidden = reader.integer({"hidden_size", "n_embd"});
  model.heads = reader.integer({"num_attention_heads", "n_head"});
  model.kv_heads = reader.optional_integer({"num_key_value_heads"}).value_or(model.heads);
  // One that does not divide is refused with what else is out of range, below.
  const std::int64_t head_dim =
      model.heads > 0 && model.hidden % model.heads == 0 ? model.hidden / model.heads : 0;
  model.head_dim = reader.optional_integer({"head_dim"}).value_or(head_dim);
  model.gated_mlp = model.name != "gpt2" && model.name != "gpt_neox";
  // A hidden size beyond all limits is refused with the others, below.
  const std::int64_t usual_ffn =
      4 * std::clamp<std::int64_t>(model.hidden, 0, std::numeric_limits<std::int64_t>::max() / 4);
  model.ffn = reader.optional_integer({"intermediate_size", "n_inner"}).value_or(usual_ffn);
  model.vocab = reader.integer({"vocab_size"});
  model.sequence = reader.integer({"max_position_embeddings", "n_positions"});
  model.tied_embeddings = reader.boolean("tie_word_embeddings", model.name == "gpt2");
  if (const auto experts = reader.optional_integer({"num_local_experts", "num_experts"})) {
    model.architecture = Architecture::moe;
    model.experts = *experts;
    model.top_k = reader.integer({"num_experts_per_tok"});
    model.moe_ffn = reader.optional_integer({"moe_intermediate_size"}).value_or(model.ffn);
    model.expert_biases = model.name == "gpt_oss";
    model.clamped_gates = parsed.contains("swiglu_limit");
  }
  model.scaled_rotation = has_scaled_rotation(parsed);
  const bool repeats = read_window(parsed, reader, model);
  if (reader.error()) return tl::unexpected(*reader.error());
  if (!repeats) {
    return make_error(
        ErrorCode::bad_file, "layers with a sliding window do not repeat",
        {.file = file,
         .found = "layer_types, sliding_window_pattern or max_window_layers",
         .expected = "a window in every layer, or in all but each n-th, counted from the first"});
  }
  if (auto good = check_model(model); !good) {
    Error error = good.error();
    error.code = ErrorCode::bad_file;
    error.place.file = file;
    return tl::unexpected(std::move(error));
  }
  return model;
}

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
