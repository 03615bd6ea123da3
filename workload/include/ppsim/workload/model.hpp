#pragma once

#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <string_view>

#include "ppsim/core/ir/error.hpp"

namespace ppsim::workload {

enum class Architecture : std::uint8_t { decoder, moe, moe_mla, encoder_decoder, encoder, vit };
[[nodiscard]] std::string_view architecture_name(Architecture architecture);

/// The shape of a transformer. Units: counts of layers, heads, channels and tokens.
struct ModelDescription {
  std::string name;
  Architecture architecture = Architecture::decoder;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t ffn = 0;
  std::int64_t vocab = 0;     ///< 0: no token embedding (vision)
  std::int64_t sequence = 0;  ///< default sequence length
  bool gated_mlp = false;
  bool tied_embeddings = false;

  bool scaled_rotation = false;  ///< queries and keys are scaled as they are rotated (YaRN, 2309.00071)

  // Sliding windows: every layer but each `full_attention_every`th, counted from the first.
  std::int64_t window = 0;                ///< tokens that one attends to, itself included; 0: all before it
  std::int64_t full_attention_every = 0;  ///< 0: no layer attends to all

  // Mixture of experts: every layer but the first `first_dense_layers`.
  std::int64_t experts = 0;
  std::int64_t shared_experts = 0;
  std::int64_t top_k = 0;
  std::int64_t moe_ffn = 0;  ///< channels of one expert
  std::int64_t first_dense_layers = 0;
  bool expert_biases = false;  ///< their products have biases
  bool clamped_gates = false;  ///< the input of their activation function is cut off at a limit

  // Multi-head latent attention (2405.04434, section 2.1).
  std::int64_t q_lora = 0;  ///< 0: queries come from the hidden state itself
  std::int64_t kv_lora = 0;
  std::int64_t qk_nope = 0;
  std::int64_t qk_rope = 0;
  std::int64_t v_head = 0;

  std::int64_t encoder_layers = 0;  ///< of `layers`; the rest are decoder layers with cross-attention

  friend bool operator==(const ModelDescription&, const ModelDescription&) = default;
};

std::ostream& operator<<(std::ostream& out, const ModelDescription& model);

/// Presets, by name. Source: the public configuration files named in src/presets/models.cpp.
[[nodiscard]] std::span<const ModelDescription> model_presets();

/// A preset, with fields overridden: `llama3.1-405b` or `llama3.1-405b:layers=42,sequence=4096`.
/// Errors: bad_argument naming the models or fields there are, and shapes that cannot be (see check_model).
[[nodiscard]] Expected<ModelDescription> model_from_name(std::string_view text);

/// The model with fields overridden, as in `layers=42,sequence=4096`; nothing overrides none.
/// Errors: as those of model_from_name.
[[nodiscard]] Expected<ModelDescription> with_fields(const ModelDescription& model,
                                                     std::string_view assignments);

/// A Hugging Face `config.json` of a decoder. Its "model_type" says which keys are read, and what a missing
/// one means, as its class in transformers does. Biases, position tables and prediction layers are not
/// counted. Errors: bad_file naming the key that is missing, of a wrong type, or of a shape that this cannot
/// describe: another "model_type", layers that do not repeat, keys of layers that the type does not have.
[[nodiscard]] Expected<ModelDescription> model_from_config_json(std::string_view text,
                                                                const std::string& file);

/// Errors: bad_argument naming the field that is not positive, top_k above experts, and widths of latent
/// attention that are missing or that a model without it has.
[[nodiscard]] Expected<void> check_model(const ModelDescription& model);

/// Whether tokens of layer `layer` attend to a window of those before them.
[[nodiscard]] bool is_windowed(const ModelDescription& model, std::int64_t layer);

/// Parameters of the attention of one layer, norms included.
[[nodiscard]] std::int64_t attention_parameters(const ModelDescription& model);
/// Parameters of one dense MLP of `ffn` channels, or of one expert of `moe_ffn` channels.
[[nodiscard]] std::int64_t mlp_parameters(const ModelDescription& model, std::int64_t channels);
/// Parameters of layer `layer` that every token or only the chosen experts' tokens meet.
[[nodiscard]] std::int64_t layer_parameters(const ModelDescription& model, std::int64_t layer);
[[nodiscard]] std::int64_t active_layer_parameters(const ModelDescription& model, std::int64_t layer);
/// All parameters: layers, embedding and (untied) head. Multi-token prediction layers are not counted.
[[nodiscard]] std::int64_t parameter_count(const ModelDescription& model);

}  // namespace ppsim::workload

namespace ppsim {
using workload::active_layer_parameters;
using workload::Architecture;
using workload::architecture_name;
using workload::attention_parameters;
using workload::check_model;
using workload::is_windowed;
using workload::layer_parameters;
using workload::mlp_parameters;
using workload::model_from_config_json;
using workload::model_from_name;
using workload::model_presets;
using workload::ModelDescription;
using workload::parameter_count;
using workload::with_fields;
}  // namespace ppsim
