#include "hugging_face/model_types.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace ppsim::workload {
namespace {

constexpr auto kNeeded = KeyValueHeads::needed;

constexpr auto kTypes = std::to_array<ModelType>({
    {.name = "apertus", .gated = false},
    {.name = "arcee", .gated = false},
    {.name = "bloom", .gated = false, .tied = true, .usual_width = true},
    {.name = "codegen", .gated = false, .usual_width = true},
    {.name = "cohere", .tied = true},
    {.name = "cohere2", .tied = true, .windows = Windows::needed, .full_attention_every = 4},
    {.name = "deepseek", .experts = ExpertKeys::routed},
    {.name = "deepseek_v2", .experts = ExpertKeys::routed, .latent_attention = true},
    {.name = "deepseek_v3", .experts = ExpertKeys::routed, .latent_attention = true},
    {.name = "ernie4_5", .tied = true, .key_value_heads = kNeeded, .head_dim = 128},
    {.name = "falcon",
     .gated = false,
     .tied = true,
     .key_value_heads = KeyValueHeads::falcon,
     .sequence = 2048,
     .usual_width = true},
    {.name = "gemma", .tied = true, .key_value_heads = kNeeded, .head_dim = 256},
    {.name = "gemma2",
     .tied = true,
     .key_value_heads = kNeeded,
     .head_dim = 256,
     .windows = Windows::needed,
     .full_attention_every = 2},
    {.name = "gemma3_text",
     .tied = true,
     .key_value_heads = kNeeded,
     .head_dim = 256,
     .windows = Windows::needed,
     .full_attention_every = 6},
    {.name = "glm", .key_value_heads = kNeeded, .head_dim = 128},
    {.name = "glm4", .key_value_heads = kNeeded, .head_dim = 128},
    {.name = "glm4_moe", .key_value_heads = kNeeded, .experts = ExpertKeys::routed},
    {.name = "glm4_moe_lite", .experts = ExpertKeys::routed, .latent_attention = true},
    {.name = "gpt2", .gated = false, .tied = true, .usual_width = true},
    {.name = "gpt_bigcode",
     .gated = false,
     .tied = true,
     .key_value_heads = KeyValueHeads::multi_query,
     .usual_width = true},
    {.name = "gpt_neox", .gated = false},
    {.name = "gpt_oss",
     .key_value_heads = kNeeded,
     .head_dim = 64,
     .windows = Windows::needed,
     .full_attention_every = 2,
     .experts = ExpertKeys::local},
    {.name = "gptj", .gated = false, .usual_width = true},
    {.name = "granite"},
    {.name = "granitemoe", .experts = ExpertKeys::local},
    {.name = "kimi_k2", .experts = ExpertKeys::routed, .latent_attention = true},
    {.name = "llama"},
    {.name = "minimax_m2", .key_value_heads = kNeeded, .head_dim = 128, .experts = ExpertKeys::local},
    {.name = "mistral", .key_value_heads = kNeeded, .windows = Windows::needed},
    {.name = "mixtral",
     .key_value_heads = kNeeded,
     .windows = Windows::every_layer,
     .experts = ExpertKeys::local},
    {.name = "nemotron", .gated = false},
    {.name = "olmo"},
    {.name = "olmo2"},
    {.name = "olmo3", .windows = Windows::needed, .full_attention_every = 4},
    {.name = "olmoe", .experts = ExpertKeys::local},
    {.name = "opt", .gated = false, .tied = true},
    {.name = "phi", .gated = false},
    {.name = "phi3", .windows = Windows::every_layer},
    {.name = "phimoe",
     .key_value_heads = kNeeded,
     .windows = Windows::every_layer,
     .experts = ExpertKeys::local},
    {.name = "qwen2", .key_value_heads = kNeeded, .windows = Windows::from_layer},
    {.name = "qwen2_moe",
     .key_value_heads = kNeeded,
     .windows = Windows::listed,
     .experts = ExpertKeys::sparse_shared},
    {.name = "qwen3", .key_value_heads = kNeeded, .head_dim = 128, .windows = Windows::from_layer},
    {.name = "qwen3_moe",
     .key_value_heads = kNeeded,
     .windows = Windows::switched,
     .experts = ExpertKeys::sparse},
    {.name = "seed_oss", .key_value_heads = kNeeded, .head_dim = 128},
    {.name = "smollm3", .tied = true, .key_value_heads = kNeeded, .windows = Windows::listed},
    {.name = "stablelm", .key_value_heads = kNeeded},
    {.name = "starcoder2",
     .gated = false,
     .tied = true,
     .key_value_heads = kNeeded,
     .windows = Windows::every_layer},
});

constexpr std::string_view kChunks = "has layers that attend within chunks";
constexpr std::string_view kSparse = "attends to tokens that an indexer chooses";
constexpr std::string_view kNoAttention = "has layers without softmax attention";
constexpr std::string_view kEncoder = "has an encoder";

constexpr auto kNotRead = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"bamba", kNoAttention},
    {"bart", kEncoder},
    {"bert", kEncoder},
    {"deepseek_v32", kSparse},
    {"falcon_h1", kNoAttention},
    {"falcon_mamba", kNoAttention},
    {"glm_moe_dsa", kSparse},
    {"granitemoehybrid", kNoAttention},
    {"jamba", kNoAttention},
    {"kimi_linear", kNoAttention},
    {"lfm2", kNoAttention},
    {"llama4", kChunks},
    {"llama4_text", kChunks},
    {"mamba", kNoAttention},
    {"mamba2", kNoAttention},
    {"minimax", kNoAttention},
    {"mt5", kEncoder},
    {"nemotron_h", kNoAttention},
    {"qwen3_next", kNoAttention},
    {"recurrent_gemma", kNoAttention},
    {"roberta", kEncoder},
    {"rwkv", kNoAttention},
    {"t5", kEncoder},
    {"umt5", kEncoder},
});

}  // namespace

std::span<const ModelType> model_types() { return kTypes; }

std::string_view why_not_read(std::string_view model_type) {
  for (const auto& [name, reason] : kNotRead) {
    if (name == model_type) return reason;
  }
  return {};
}

}  // namespace ppsim::workload
