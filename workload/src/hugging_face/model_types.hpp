#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace ppsim::workload {

/// How many heads have keys and values of their own where "num_key_value_heads" is missing.
enum class KeyValueHeads : std::uint8_t {
  as_heads,
  needed,       ///< the key must not be missing
  multi_query,  ///< one, unless "multi_query" is false
  falcon,       ///< the same in its old architecture; "num_kv_heads" in its new one
};

/// Which layers "sliding_window" is for, where "layer_types" does not say.
enum class Windows : std::uint8_t {
  none,
  every_layer,  ///< none where the key is missing
  needed,       ///< all but each `full_attention_every`th; the key must not be missing
  from_layer,   ///< with "use_sliding_window", those from "max_window_layers" on
  switched,     ///< with "use_sliding_window", all
  listed,       ///< with "use_sliding_window", only "layer_types" says
};

/// The names of the keys of experts, and which layers have them.
enum class ExpertKeys : std::uint8_t {
  none,
  local,          ///< "num_local_experts" of "intermediate_size" channels, in every layer
  sparse,         ///< "num_experts"; "decoder_sparse_step" and "mlp_only_layers" choose layers
  sparse_shared,  ///< the same, beside "shared_expert_intermediate_size"
  routed,         ///< "n_routed_experts"; "first_k_dense_replace" and "moe_layer_freq" choose layers
};

/// The meaning of a "model_type" beside the keys of the file: what its class takes where a key is missing.
struct ModelType {
  std::string_view name;
  bool gated = true;
  bool tied = false;  ///< where "tie_word_embeddings" is missing
  KeyValueHeads key_value_heads = KeyValueHeads::as_heads;
  std::int64_t head_dim = 0;  ///< where "head_dim" is missing; 0: hidden size over heads
  std::int64_t sequence = 0;  ///< where "max_position_embeddings" is missing; 0: it must not be
  bool usual_width = false;   ///< a missing width of the MLP is four times the hidden size
  Windows windows = Windows::none;
  std::int64_t full_attention_every = 0;
  ExpertKeys experts = ExpertKeys::none;
  bool latent_attention = false;
};

/// Those that are read. Source: configuration and modelling files of transformers 5.24, and for deepseek and
/// kimi_k2 those beside the published weights.
[[nodiscard]] std::span<const ModelType> model_types();

/// Why a type that many have is not read; empty for others.
[[nodiscard]] std::string_view why_not_read(std::string_view model_type);

}  // namespace ppsim::workload
