#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "hugging_face/config_keys.hpp"
#include "hugging_face/layer_kinds.hpp"
#include "hugging_face/model_types.hpp"
#include "io/json/file.hpp"
#include "ppsim/core/text/nearest.hpp"
#include "ppsim/workload/model.hpp"

namespace ppsim::workload {
namespace {

using nlohmann::json;

/// Who reads a key that changes the shape of a model.
struct ShapeKey {
  const char* key;
  bool (*is_read)(const ModelType&);
};

bool nobody(const ModelType&) { return false; }
bool with_experts(const ModelType& type) { return type.experts != ExpertKeys::none; }
bool with_widths(const ModelType& type) { return with_experts(type) && type.experts != ExpertKeys::local; }
bool with_routed(const ModelType& type) { return type.experts == ExpertKeys::routed; }
bool with_shared(const ModelType& type) { return type.experts == ExpertKeys::sparse_shared; }
bool with_sparse(const ModelType& type) { return with_shared(type) || type.experts == ExpertKeys::sparse; }
bool with_latents(const ModelType& type) { return type.latent_attention; }

/// A file of another type that has one of these is of a model that the type is not.
constexpr auto kShapeKeys = std::to_array<ShapeKey>({
    {"n_routed_experts", with_routed},
    {"num_experts", with_experts},
    {"num_local_experts", with_experts},
    {"moe_num_experts", nobody},
    {"num_routed_experts", nobody},
    {"moe_intermediate_size", with_widths},
    {"n_shared_experts", with_routed},
    {"num_shared_experts", nobody},
    {"moe_num_shared_experts", nobody},
    {"shared_expert_intermediate_size", with_shared},
    {"shared_intermediate_size", nobody},
    {"moe_shared_expert_intermediate_size", nobody},
    {"first_k_dense_replace", with_routed},
    {"moe_layer_freq", with_routed},
    {"mlp_layer_types", with_routed},
    {"decoder_sparse_step", with_sparse},
    {"mlp_only_layers", with_sparse},
    {"interleave_moe_layer_step", nobody},
    {"moe_layers", nobody},
    {"kv_lora_rank", with_latents},
    {"q_lora_rank", with_latents},
    {"qk_nope_head_dim", with_latents},
    {"qk_rope_head_dim", with_latents},
    {"v_head_dim", with_latents},
    {"mlp_type", [](const ModelType& type) { return type.name == "starcoder2"; }},
    {"swiglu_limit", [](const ModelType& type) { return type.name == "gpt_oss"; }},
    {"index_topk", nobody},
    {"attention_chunk_size", nobody},
    {"full_attention_interval", nobody},
    {"linear_num_value_heads", nobody},
    {"num_kv_shared_layers", nobody},
    {"hidden_size_per_layer_input", nobody},
    {"block_configs", nobody},
    {"add_cross_attention", nobody},
    {"is_encoder_decoder", nobody},
});

void refuse_other_shapes(ConfigKeys& keys, const ModelType& type) {
  for (const auto& [key, is_read] : kShapeKeys) {
    if (is_read(type) || !keys.says_something(key)) continue;
    keys.refuse(key, "is not a key of model_type " + std::string(type.name), keys.found(key),
                "no such key, or the model_type whose layers have it");
  }
}

const ModelType* type_of(ConfigKeys& keys) {
  const std::string name = keys.text("model_type", "");
  if (keys.error()) return nullptr;
  const auto found = std::ranges::find(model_types(), name, &ModelType::name);
  if (found != model_types().end()) return &*found;
  const std::string_view reason = why_not_read(name);
  if (!reason.empty()) {
    keys.refuse("model_type", "is one that cannot be described: it " + std::string(reason), name,
                "a decoder whose layers have softmax attention and an MLP or experts");
  } else if (keys.says_something("text_config")) {
    keys.refuse("text_config", "is only a part of the model", "model_type " + name,
                "that part as a file of its own");
  } else {
    keys.refuse("model_type", "is not known" + suggestion(name, names_in(model_types())),
                name.empty() ? "nothing" : name,
                "one of " + joined(names_in(model_types())) +
                    "; in a copy of the file, the one whose layers the model has");
  }
  return nullptr;
}

std::int64_t read_kv_heads(ConfigKeys& keys, const ModelType& type, std::int64_t heads) {
  switch (type.key_value_heads) {
    case KeyValueHeads::as_heads:
      return keys.whole({"num_key_value_heads"}).value_or(heads);
    case KeyValueHeads::needed:
      return keys.needed({"num_key_value_heads"});
    case KeyValueHeads::multi_query:
      return keys.flag("multi_query", true) ? 1 : heads;
    case KeyValueHeads::falcon:
      if (keys.flag("new_decoder_architecture", false)) return keys.whole({"num_kv_heads"}).value_or(heads);
      return keys.flag("multi_query", true) ? 1 : heads;
  }
  return heads;
}

/// Whether the MLP has a gate: the type says so, and of Starcoder 2 "mlp_type".
bool read_gate(ConfigKeys& keys, const ModelType& type) {
  for (const char* key : {"hidden_act", "activation_function", "hidden_activation"}) {
    if (!type.gated && keys.text(key, "").find("glu") != std::string::npos)
      keys.refuse(key, "has a gate, which model_type " + std::string(type.name) + " does not have",
                  keys.found(key), "an activation function of one input");
  }
  if (type.name != "starcoder2") return type.gated;
  const std::string mlp = keys.text("mlp_type", "default");
  if (mlp != "default" && mlp != "gated") keys.refuse("mlp_type", "is not known", mlp, "default or gated");
  return mlp == "gated";
}

std::int64_t read_ffn(ConfigKeys& keys, const ModelType& type, std::int64_t hidden) {
  const std::initializer_list<const char*> names = {"intermediate_size", "n_inner", "ffn_dim",
                                                    "ffn_hidden_size"};
  if (!type.usual_width) return keys.needed(names);
  // A hidden size beyond all limits is refused with the others.
  const std::int64_t usual =
      4 * std::clamp<std::int64_t>(hidden, 0, std::numeric_limits<std::int64_t>::max() / 4);
  return keys.whole(names).value_or(usual);
}

std::int64_t read_sequence(ConfigKeys& keys, const ModelType& type) {
  if (type.name == "bloom") return keys.needed({"seq_length"});
  if (type.sequence > 0) return keys.whole({"max_position_embeddings"}).value_or(type.sequence);
  return keys.needed({"max_position_embeddings", "n_positions"});
}

void read_latent_attention(ConfigKeys& keys, ModelDescription& model) {
  model.architecture = Architecture::moe_mla;
  model.kv_heads = model.heads;
  model.q_lora = keys.needed_or_null("q_lora_rank");
  model.kv_lora = keys.needed({"kv_lora_rank"});
  model.qk_nope = keys.needed({"qk_nope_head_dim"});
  model.qk_rope = keys.needed({"qk_rope_head_dim"});
  model.v_head = keys.needed({"v_head_dim"});
  model.head_dim = model.v_head;
}

void read_attention(ConfigKeys& keys, const ModelType& type, ModelDescription& model) {
  if (type.latent_attention) return read_latent_attention(keys, model);
  model.kv_heads = read_kv_heads(keys, type, model.heads);
  // One that does not divide is refused with what else is out of range.
  const std::int64_t whole =
      model.heads > 0 && model.hidden % model.heads == 0 ? model.hidden / model.heads : 0;
  model.head_dim = keys.whole({"head_dim"}).value_or(type.head_dim > 0 ? type.head_dim : whole);
}

/// YaRN without a scale of its own, which is then one of the factor (2309.00071, section 3.4).
bool has_scaled_rotation(const json& object) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const auto scaling = object.find(key);
    if (scaling == object.end() || !scaling->is_object() || scaling->contains("mscale_all_dim")) continue;
    if (scaling->value("rope_type", scaling->value("type", json())) == "yarn") return true;
  }
  return false;
}

ModelDescription read_model(ConfigKeys& keys, const ModelType& type) {
  ModelDescription model;
  model.name = type.name;
  model.layers = keys.needed({"num_hidden_layers", "n_layer"});
  model.hidden = keys.needed({"hidden_size", "n_embd", "n_embed"});
  model.heads = keys.needed({"num_attention_heads", "n_head"});
  model.gated_mlp = read_gate(keys, type);
  model.ffn = read_ffn(keys, type, model.hidden);
  model.vocab = keys.needed({"vocab_size"});
  model.sequence = read_sequence(keys, type);
  model.tied_embeddings = keys.flag("tie_word_embeddings", type.tied);
  read_experts(keys, type, model);
  read_attention(keys, type, model);
  read_window(keys, type, model);
  model.expert_biases = type.name == "gpt_oss";
  model.clamped_gates = type.name == "gpt_oss";
  const std::int64_t projected = keys.whole({"word_embed_proj_dim"}).value_or(model.hidden);
  if (projected != model.hidden)
    keys.refuse("word_embed_proj_dim", "differs from hidden_size", std::to_string(projected),
                std::to_string(model.hidden));
  return model;
}

}  // namespace

Expected<ModelDescription> model_from_config_json(std::string_view text, const std::string& file) {
  PPSIM_ASSIGN_OR_RETURN(const auto parsed, JsonFile::parse(text, file));
  const json& object = parsed.root();
  if (!object.is_object()) return parsed.error_at({}, "no JSON object", object.type_name(), "an object");
  ConfigKeys keys(object, file);
  const ModelType* type = type_of(keys);
  if (type == nullptr) return tl::unexpected(keys.error().value());
  refuse_other_shapes(keys, *type);
  ModelDescription model = read_model(keys, *type);
  if (keys.error()) return tl::unexpected(*keys.error());
  model.scaled_rotation = has_scaled_rotation(object);
  if (auto good = check_model(model); !good) {
    Error error = good.error();
    error.code = ErrorCode::bad_file;
    error.place.file = file;
    return tl::unexpected(std::move(error));
  }
  return model;
}

}  // namespace ppsim::workload
