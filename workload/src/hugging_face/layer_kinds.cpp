#include "hugging_face/layer_kinds.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace ppsim::workload {
namespace {

constexpr std::int64_t kMaxListed = 1 << 16;

/// One element for each layer; of more layers than any model has, for the first.
std::vector<bool> of_layers(const ModelDescription& model, bool value) {
  return std::vector<bool>(static_cast<std::size_t>(std::clamp<std::int64_t>(model.layers, 0, kMaxListed)),
                           value);
}

/// Whether a list with one element for each layer has as many.
bool has_all_layers(ConfigKeys& keys, const char* key, std::size_t size, const ModelDescription& model) {
  if (static_cast<std::int64_t>(size) == model.layers) return true;
  keys.refuse(key, "does not list every layer", std::to_string(size) + " layers",
              std::to_string(model.layers) + ", as num_hidden_layers says");
  return false;
}

/// Layers that "layer_types" gives a window; nothing where the key is missing or wrong.
std::vector<bool> listed_windows(ConfigKeys& keys, const ModelDescription& model) {
  std::vector<bool> windowed;
  const auto types = keys.texts("layer_types");
  if (!types || !has_all_layers(keys, "layer_types", types->size(), model)) return windowed;
  for (const std::string& type : *types) {
    if (type != "sliding_attention" && type != "full_attention")
      keys.refuse("layer_types", "has layers that cannot be described", type,
                  "full_attention and sliding_attention");
    windowed.push_back(type == "sliding_attention");
  }
  return windowed;
}

/// The window that the type's layers have, 0 without one.
std::int64_t window_of(ConfigKeys& keys, const ModelType& type) {
  switch (type.windows) {
    case Windows::none:
      if (keys.says_something("sliding_window") && keys.flag("use_sliding_window", true))
        keys.refuse("sliding_window", "is not a key of model_type " + std::string(type.name),
                    keys.found("sliding_window"), "null");
      return 0;
    case Windows::every_layer:
      return keys.whole({"sliding_window"}).value_or(0);
    case Windows::needed:
      return keys.needed_or_null("sliding_window");
    case Windows::from_layer:
    case Windows::switched:
    case Windows::listed:
      return keys.flag("use_sliding_window", false) ? keys.needed({"sliding_window"}) : 0;
  }
  return 0;
}

/// Layers with a window as the type has them where they are not listed.
std::vector<bool> usual_windows(ConfigKeys& keys, const ModelType& type, const ModelDescription& model) {
  std::vector<bool> windowed = of_layers(model, true);
  if (type.windows == Windows::listed) {
    keys.refuse("layer_types", "must say which layers have a window", "nothing", "a list");
  } else if (type.windows == Windows::from_layer) {
    const std::int64_t full = std::clamp<std::int64_t>(keys.needed({"max_window_layers"}), 0,
                                                       static_cast<std::int64_t>(windowed.size()));
    std::fill_n(windowed.begin(), full, false);
  } else if (type.full_attention_every > 0) {
    const std::int64_t every = keys.whole({"sliding_window_pattern"}).value_or(type.full_attention_every);
    if (every < 1) {
      keys.refuse("sliding_window_pattern", "cannot be read", std::to_string(every), "1 or more");
      return windowed;
    }
    for (std::size_t i = 0; i < windowed.size(); ++i)
      windowed[i] = (static_cast<std::int64_t>(i) + 1) % every != 0;
  }
  return windowed;
}

/// Layers with experts by "mlp_layer_types", which newer files have.
std::vector<bool> listed_mixtures(ConfigKeys& keys, const ModelDescription& model) {
  std::vector<bool> mixture;
  const auto types = keys.texts("mlp_layer_types");
  if (!types || !has_all_layers(keys, "mlp_layer_types", types->size(), model)) return mixture;
  for (const std::string& type : *types) {
    if (type != "dense" && type != "sparse")
      keys.refuse("mlp_layer_types", "has layers that cannot be described", type, "dense and sparse");
    mixture.push_back(type == "sparse");
  }
  return mixture;
}

std::vector<bool> routed_mixtures(ConfigKeys& keys, const ModelDescription& model) {
  if (keys.says_something("mlp_layer_types")) return listed_mixtures(keys, model);
  std::vector<bool> mixture = of_layers(model, true);
  const std::int64_t dense = keys.needed({"first_k_dense_replace"});
  const std::int64_t every = std::max<std::int64_t>(1, keys.whole({"moe_layer_freq"}).value_or(1));
  for (std::size_t i = 0; i < mixture.size(); ++i) {
    const auto layer = static_cast<std::int64_t>(i);
    mixture[i] = layer >= dense && layer % every == 0;
  }
  return mixture;
}

std::vector<bool> sparse_mixtures(ConfigKeys& keys, const ModelDescription& model) {
  std::vector<bool> mixture = of_layers(model, true);
  const std::int64_t step = std::max<std::int64_t>(1, keys.whole({"decoder_sparse_step"}).value_or(1));
  for (std::size_t i = 0; i < mixture.size(); ++i)
    mixture[i] = (static_cast<std::int64_t>(i) + 1) % step == 0;
  for (const std::int64_t layer : keys.wholes("mlp_only_layers")) {
    if (layer >= 0 && layer < static_cast<std::int64_t>(mixture.size()))
      mixture[static_cast<std::size_t>(layer)] = false;
  }
  return mixture;
}

/// The key that says which layers have experts, to name in an error.
const char* choosing_key(const ConfigKeys& keys, const ModelType& type) {
  if (keys.says_something("mlp_layer_types")) return "mlp_layer_types";
  if (type.experts == ExpertKeys::routed) return "moe_layer_freq";
  return keys.says_something("mlp_only_layers") ? "mlp_only_layers" : "decoder_sparse_step";
}

/// Sets the dense layers, which are the first.
void set_dense_layers(ConfigKeys& keys, const ModelType& type, const std::vector<bool>& mixture,
                      ModelDescription& model) {
  const auto first = std::ranges::find(mixture, true);
  if (std::find(first, mixture.end(), false) != mixture.end()) {
    const char* key = choosing_key(keys, type);
    keys.refuse(key, "puts dense layers after layers with experts", keys.found(key),
                "experts in all layers but the first ones");
  }
  model.first_dense_layers = first - mixture.begin();
}

/// Experts that every token meets, counted in widths of the others.
std::int64_t shared_by_width(ConfigKeys& keys, const ModelDescription& model) {
  const char* key = "shared_expert_intermediate_size";
  const std::int64_t width = keys.needed_or_null(key);
  if (model.moe_ffn > 0 && width % model.moe_ffn == 0) return width / model.moe_ffn;
  keys.refuse(key, "is no multiple of moe_intermediate_size", std::to_string(width),
              "a multiple of " + std::to_string(model.moe_ffn));
  return 0;
}

}  // namespace

void read_window(ConfigKeys& keys, const ModelType& type, ModelDescription& model) {
  const std::int64_t window = window_of(keys, type);
  std::vector<bool> windowed = listed_windows(keys, model);
  if (window == 0) {
    if (std::ranges::find(windowed, true) != windowed.end())
      keys.refuse("layer_types", "has layers with a window, but sliding_window is not set",
                  "sliding_attention",
                  "full_attention, or a sliding_window that model_type " + std::string(type.name) + " has");
    return;
  }
  if (windowed.empty()) windowed = usual_windows(keys, type, model);
  const auto first = std::ranges::find(windowed, false);
  if (keys.error() || std::ranges::find(windowed, true) == windowed.end()) return;
  model.window = window;
  if (first != windowed.end()) model.full_attention_every = first - windowed.begin() + 1;
  for (std::size_t i = 0; i < windowed.size(); ++i) {
    if (windowed[i] == is_windowed(model, static_cast<std::int64_t>(i))) continue;
    keys.refuse("sliding_window", "is for layers that do not repeat",
                "layer_types, sliding_window_pattern or max_window_layers",
                "a window in every layer, or in all but each n-th, counted from the first");
    return;
  }
}

void read_experts(ConfigKeys& keys, const ModelType& type, ModelDescription& model) {
  if (type.experts == ExpertKeys::none) return;
  const bool routed = type.experts == ExpertKeys::routed;
  const bool may_be_dense = type.name == "deepseek";
  const char* count = routed                              ? "n_routed_experts"
                      : type.experts == ExpertKeys::local ? "num_local_experts"
                                                          : "num_experts";
  const std::initializer_list<const char*> counts = {count, "num_local_experts", "num_experts"};
  const std::int64_t experts = may_be_dense ? keys.whole(counts).value_or(0) : keys.needed(counts);
  if (type.experts != ExpertKeys::local && experts == 0) return;
  model.architecture = Architecture::moe;
  model.experts = experts;
  model.top_k = keys.needed({"num_experts_per_tok", "experts_per_token"});
  model.moe_ffn = type.experts == ExpertKeys::local ? model.ffn : keys.needed({"moe_intermediate_size"});
  if (type.experts == ExpertKeys::local) return;
  set_dense_layers(keys, type, routed ? routed_mixtures(keys, model) : sparse_mixtures(keys, model), model);
  if (routed) model.shared_experts = keys.needed_or_null("n_shared_experts");
  if (type.experts == ExpertKeys::sparse_shared) model.shared_experts = shared_by_width(keys, model);
}

}  // namespace ppsim::workload
