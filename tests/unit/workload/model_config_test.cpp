#include <gtest/gtest.h>

#include <map>

#include "ppsim/workload/model.hpp"

namespace ppsim {
namespace {

ModelDescription preset_named(const std::string& name) { return model_from_name(name).value(); }

Expected<ModelDescription> config(const std::string& text) {
  return model_from_config_json(text, "config.json");
}

/// The error of a file with this text, or "nothing".
std::string error_of(const Expected<ModelDescription>& model) {
  return model ? "nothing" : to_string(model.error());
}

/// The text with one part of it changed.
std::string with(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

// The published files, without the keys that have nothing to do with the shape.
const std::string kLlama70B =
    R"({"model_type":"llama","num_hidden_layers":80,"hidden_size":8192,"num_attention_heads":64,
    "num_key_value_heads":8,"intermediate_size":28672,"vocab_size":128256,"max_position_embeddings":8192,
    "hidden_act":"silu","tie_word_embeddings":false,"rope_theta":500000.0})";

const std::string kDeepSeekV3 =
    R"({"model_type":"deepseek_v3","num_hidden_layers":61,"hidden_size":7168,"num_attention_heads":128,
    "num_key_value_heads":128,"intermediate_size":18432,"moe_intermediate_size":2048,"moe_layer_freq":1,
    "n_routed_experts":256,"n_shared_experts":1,"num_experts_per_tok":8,"first_k_dense_replace":3,
    "n_group":8,"topk_group":4,"num_nextn_predict_layers":1,"kv_lora_rank":512,"q_lora_rank":1536,
    "qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,"vocab_size":129280,"ep_size":1,
    "rope_scaling":{"type":"yarn","factor":40,"mscale":1.0,"mscale_all_dim":1.0},"hidden_act":"silu",
    "max_position_embeddings":163840,"tie_word_embeddings":false})";

const std::string kQwen3Moe =
    R"({"model_type":"qwen3_moe","num_hidden_layers":48,"hidden_size":2048,"num_attention_heads":32,
    "num_key_value_heads":4,"head_dim":128,"intermediate_size":6144,"moe_intermediate_size":768,
    "num_experts":128,"num_experts_per_tok":8,"decoder_sparse_step":1,"mlp_only_layers":[],
    "max_window_layers":48,"sliding_window":null,"use_sliding_window":false,"vocab_size":151936,
    "max_position_embeddings":40960,"rope_scaling":null,"tie_word_embeddings":false,"hidden_act":"silu"})";

const std::string kQwen2Moe =
    R"({"model_type":"qwen2_moe","num_hidden_layers":24,"hidden_size":2048,"num_attention_heads":16,
    "num_key_value_heads":16,"intermediate_size":5632,"moe_intermediate_size":1408,"num_experts":60,
    "shared_expert_intermediate_size":5632,"num_experts_per_tok":4,"decoder_sparse_step":1,
    "max_window_layers":21,"sliding_window":32768,"use_sliding_window":false,"vocab_size":151936,
    "max_position_embeddings":8192,"tie_word_embeddings":false})";

const std::string kMixtral =
    R"({"model_type":"mixtral","num_hidden_layers":32,"hidden_size":4096,"num_attention_heads":32,
    "num_key_value_heads":8,"intermediate_size":14336,"num_local_experts":8,"num_experts_per_tok":2,
    "sliding_window":null,"vocab_size":32000,"max_position_embeddings":32768,"tie_word_embeddings":false})";

const std::string kGptOss =
    R"({"model_type":"gpt_oss","num_hidden_layers":4,"hidden_size":2880,"num_attention_heads":64,
    "num_key_value_heads":8,"head_dim":64,"intermediate_size":2880,"num_local_experts":128,
    "num_experts_per_tok":4,"experts_per_token":4,"sliding_window":128,"swiglu_limit":7.0,
    "layer_types":["sliding_attention","full_attention","sliding_attention","full_attention"],
    "rope_scaling":{"rope_type":"yarn","factor":32.0},"attention_bias":true,"vocab_size":201088,
    "max_position_embeddings":131072,"tie_word_embeddings":false})";

const std::string kGemma =
    R"({"model_type":"gemma","num_hidden_layers":18,"hidden_size":2048,"num_attention_heads":8,
    "num_key_value_heads":1,"head_dim":256,"intermediate_size":16384,"vocab_size":256128,
    "hidden_activation":"gelu_pytorch_tanh","max_position_embeddings":8192})";

/// With the name of a preset, and its sequence: files say how long a sequence may be.
ModelDescription renamed(const Expected<ModelDescription>& model, const std::string& name) {
  EXPECT_TRUE(model.has_value()) << name << ": " << error_of(model);
  ModelDescription same = model.value_or(ModelDescription{});
  same.name = name.substr(0, name.find(':'));
  same.sequence = preset_named(name).sequence;
  return same;
}

TEST(ModelConfig, PublishedFilesGiveThePresets) {
  const std::string v2 =
      with(with(with(with(kDeepSeekV3, "deepseek_v3", "deepseek_v2"), "layers\":61", "layers\":60"), "7168",
                "5120"),
           "18432", "12288");
  const std::string v2_experts =
      with(with(with(with(with(v2, "\"moe_intermediate_size\":2048", "\"moe_intermediate_size\":1536"), "256",
                          "160"),
                     "n_shared_experts\":1", "n_shared_experts\":2"),
                "per_tok\":8", "per_tok\":6"),
           "129280", "102400");
  const std::string qwen235 =
      with(with(with(with(with(kQwen3Moe, "layers\":48", "layers\":94"), "2048", "4096"),
                     "num_attention_heads\":32", "num_attention_heads\":64"),
                "6144", "12288"),
           "768", "1536");
  const std::string kimi = with(with(with(with(with(kDeepSeekV3, "deepseek_v3", "kimi_k2"), "256", "384"),
                                          "replace\":3", "replace\":1"),
                                     "129280", "163840"),
                                "\"num_attention_heads\":128,\n    \"num_key_value_heads\":128",
                                "\"num_attention_heads\":64,\n    \"num_key_value_heads\":64");
  const std::string llama8 =
      with(with(with(with(kLlama70B, "80", "32"), "size\":8192", "size\":4096"), "heads\":64", "heads\":32"),
           "28672", "14336");
  const std::string llama405 = with(
      with(with(with(kLlama70B, "80", "126"), "size\":8192", "size\":16384"), "heads\":64", "heads\":128"),
      "28672", "53248");
  const std::map<std::string, std::string> files = {
      {"llama3-70b", kLlama70B},
      {"llama3-8b", llama8},
      {"llama3.1-405b", llama405},
      {"mixtral-8x7b", kMixtral},
      {"qwen3-30b-a3b", kQwen3Moe},
      {"qwen3-235b-a22b", qwen235},
      {"deepseek-v2", with(v2_experts, "replace\":3", "replace\":1")},
      {"deepseek-v3", kDeepSeekV3},
      {"kimi-k2", kimi},
      {"gpt-oss-120b:layers=4", kGptOss},
      {"gemma-2b", kGemma},
      {"paligemma-text", with(kGemma, "256128", "257152")}};
  for (const auto& [name, text] : files) EXPECT_EQ(renamed(config(text), name), preset_named(name)) << name;
  EXPECT_NEAR(static_cast<double>(parameter_count(config(kDeepSeekV3).value())) / 1e9, 671.03, 0.01);
}

/// Billions, as published.
double billions(const std::string& text) {
  const auto model = config(text);
  EXPECT_TRUE(model.has_value()) << error_of(model);
  return model ? static_cast<double>(parameter_count(*model)) / 1e9 : 0;
}

TEST(ModelConfig, OtherFilesHaveTheirPublishedSize) {
  EXPECT_NEAR(billions(kQwen2Moe), 14.3, 0.05) << "Qwen1.5-MoE-A2.7B";
  EXPECT_EQ(config(kQwen2Moe)->shared_experts, 4);
  EXPECT_NEAR(billions(R"({"model_type":"deepseek_v2","num_hidden_layers":27,"hidden_size":2048,
      "num_attention_heads":16,"intermediate_size":10944,"moe_intermediate_size":1408,"n_routed_experts":64,
      "n_shared_experts":2,"num_experts_per_tok":6,"first_k_dense_replace":1,"kv_lora_rank":512,
      "q_lora_rank":null,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,"vocab_size":102400,
      "max_position_embeddings":163840})"),
              15.7, 0.05)
      << "DeepSeek-V2-Lite";
  EXPECT_NEAR(billions(R"({"model_type":"glm4_moe","num_hidden_layers":92,"hidden_size":5120,"head_dim":128,
      "num_attention_heads":96,"num_key_value_heads":8,"intermediate_size":12288,"use_qk_norm":true,
      "moe_intermediate_size":1536,"n_routed_experts":160,"n_shared_experts":1,"num_experts_per_tok":8,
      "first_k_dense_replace":3,"num_nextn_predict_layers":1,"vocab_size":151552,
      "max_position_embeddings":131072})"),
              353, 2)
      << "GLM-4.5 without its prediction layer";
  EXPECT_NEAR(billions(R"({"model_type":"gpt2","n_layer":12,"n_embd":768,"n_head":12,"n_positions":1024,
      "n_ctx":1024,"n_inner":null,"activation_function":"gelu_new","vocab_size":50257})"),
              0.1235, 0.001)
      << "GPT-2 without positions: tied, no gate, four times as wide";
  EXPECT_NEAR(billions(R"({"model_type":"starcoder2","num_hidden_layers":30,"hidden_size":3072,
      "num_attention_heads":24,"num_key_value_heads":2,"intermediate_size":12288,"mlp_type":"default",
      "sliding_window":4096,"hidden_act":"gelu_pytorch_tanh","vocab_size":49152,
      "max_position_embeddings":16384})"),
              3.03, 0.01)
      << "StarCoder2-3B";
}

/// A dense model of this type, whose file has this besides.
std::string dense_config(const std::string& type, const std::string& more = "") {
  return R"({"hidden_size":1024,"num_attention_heads":8,"num_key_value_heads":8,"vocab_size":1000,)"
         R"("max_position_embeddings":4096,"intermediate_size":4096,"num_hidden_layers":4,"model_type":")" +
         type + "\"" + more + "}";
}

TEST(ModelConfig, TheTypeSaysWhatAMissingKeyMeans) {
  EXPECT_FALSE(config(dense_config("llama"))->tied_embeddings);
  EXPECT_TRUE(config(dense_config("llama", R"(,"tie_word_embeddings":true)"))->tied_embeddings);
  EXPECT_TRUE(config(dense_config("gemma"))->tied_embeddings);
  EXPECT_EQ(config(dense_config("gemma"))->head_dim, 256);
  EXPECT_EQ(config(dense_config("qwen2"))->head_dim, 128);
  for (const char* type : {"gpt_neox", "opt", "phi", "nemotron", "starcoder2"})
    EXPECT_FALSE(config(dense_config(type))->gated_mlp) << type;
  for (const char* type : {"llama", "qwen2", "qwen3", "gemma", "phi3", "stablelm", "olmo2", "cohere"})
    EXPECT_TRUE(config(dense_config(type))->gated_mlp) << type;
  EXPECT_TRUE(config(dense_config("starcoder2", R"(,"mlp_type":"gated")"))->gated_mlp);
  EXPECT_EQ(config(dense_config("falcon"))->kv_heads, 1);
  EXPECT_EQ(config(dense_config("falcon", R"(,"multi_query":false)"))->kv_heads, 8);
  EXPECT_EQ(config(dense_config("falcon", R"(,"new_decoder_architecture":true,"num_kv_heads":2)"))->kv_heads,
            2);
  EXPECT_EQ(config(dense_config("gpt_bigcode"))->kv_heads, 1);
  const std::string no_sequence = with(dense_config("falcon"), R"("max_position_embeddings":4096,)", "");
  EXPECT_EQ(config(no_sequence)->sequence, 2048) << "as that of falcon-7b, whose file does not say";
  EXPECT_EQ(config(dense_config("falcon"))->sequence, 4096);
}

TEST(ModelConfig, RefusesWhatIsMissingOrOfAWrongType) {
  EXPECT_EQ(config("[").error().code, ErrorCode::bad_file);
  const std::string cut = error_of(config("{\"model_type\": \"llama\",\n\"hidden_size\": 40"));
  EXPECT_TRUE(cut.starts_with("config.json:2:18: not JSON, as if the file was cut off")) << cut;
  EXPECT_EQ(error_of(config("[1]")),
            "config.json:1:1: the whole file: no JSON object (found array, expected an object)");
  EXPECT_EQ(error_of(config(R"({"model_type":"llama","hidden_size":3.5})")),
            "config.json: key \"num_hidden_layers\" cannot be read (found nothing, expected a whole number)");
  EXPECT_NE(error_of(config(with(kLlama70B, "_heads\":8", "_heads\":5"))).find("heads=64, kv_heads=5"),
            std::string::npos);
  EXPECT_NE(error_of(config(with(kLlama70B, "8192", "8191"))).find("head_dim is out of range"),
            std::string::npos);
  EXPECT_EQ(
      error_of(config(with(kDeepSeekV3, "\"q_lora_rank\":1536,", ""))),
      "config.json: key \"q_lora_rank\" cannot be read (found nothing, expected a whole number, or null "
      "where there is none)");
  EXPECT_NE(error_of(config(with(dense_config("mistral"), "\"num_key_value_heads\":8,", "")))
                .find("\"num_key_value_heads\" cannot be read (found nothing"),
            std::string::npos);
  EXPECT_EQ(error_of(config(dense_config("llama", R"(,"n_layer":5)"))),
            "config.json: key \"n_layer\" differs from another name of it (found 5, expected 4)");
}

TEST(ModelConfig, RefusesTypesThatItDoesNotKnow) {
  const std::string none = error_of(config(with(dense_config("llama"), "\"llama\"", "null")));
  EXPECT_NE(none.find("key \"model_type\" is not known (found nothing, expected one of apertus, "),
            std::string::npos)
      << none;
  EXPECT_NE(error_of(config(dense_config("lama"))).find("did you mean \"llama\"?"), std::string::npos);
  EXPECT_EQ(
      error_of(config(dense_config("llama4_text"))),
      "config.json: key \"model_type\" is one that cannot be described: it has layers that attend within "
      "chunks (found llama4_text, expected a decoder whose layers have softmax attention and an MLP or "
      "experts)");
  EXPECT_EQ(error_of(config(R"({"model_type":"gemma3","text_config":{"hidden_size":8}})")),
            "config.json: key \"text_config\" is only a part of the model (found model_type gemma3, expected "
            "that part as a file of its own)");
}

TEST(ModelConfig, RefusesShapesThatTheTypeHasNot) {
  EXPECT_EQ(error_of(config(dense_config("llama", R"(,"n_routed_experts":8)"))),
            "config.json: key \"n_routed_experts\" is not a key of model_type llama (found 8, expected no "
            "such key, or the model_type whose layers have it)");
  EXPECT_NE(error_of(config(dense_config("qwen2", R"(,"kv_lora_rank":512)"))).find("\"kv_lora_rank\""),
            std::string::npos);
  EXPECT_NE(error_of(config(with(kQwen3Moe, "}", R"(,"shared_expert_intermediate_size":768})")))
                .find("\"shared_expert_intermediate_size\""),
            std::string::npos);
  EXPECT_NE(error_of(config(dense_config("gpt_neox", R"(,"hidden_act":"swiglu")")))
                .find("\"hidden_act\" has a gate"),
            std::string::npos);
  EXPECT_NE(
      error_of(config(dense_config("opt", R"(,"word_embed_proj_dim":512)"))).find("differs from hidden_size"),
      std::string::npos);
  EXPECT_EQ(error_of(config(dense_config("llama", R"(,"num_local_experts":0,"kv_lora_rank":null)"))),
            "nothing");
}

TEST(ModelConfig, DenseLayersAreTheFirst) {
  EXPECT_EQ(config(with(kQwen3Moe, "[]", "[0,1]"))->first_dense_layers, 2);
  EXPECT_EQ(config(with(kQwen3Moe, "\"num_experts\":128", "\"num_experts\":0"))->architecture,
            Architecture::decoder);
  EXPECT_EQ(error_of(config(with(kQwen3Moe, "step\":1", "step\":2"))),
            "config.json: key \"decoder_sparse_step\" puts dense layers after layers with experts (found 2, "
            "expected experts in all layers but the first ones)");
  EXPECT_NE(error_of(config(with(kQwen3Moe, "[]", "[5]"))).find("\"mlp_only_layers\" puts dense layers"),
            std::string::npos);
  EXPECT_NE(error_of(config(with(kDeepSeekV3, "freq\":1", "freq\":2"))).find("\"moe_layer_freq\" puts dense"),
            std::string::npos);
  const std::string odd =
      with(kQwen2Moe, "\"shared_expert_intermediate_size\":5632", "\"shared_expert_intermediate_size\":5000");
  EXPECT_NE(error_of(config(odd))
                .find("is no multiple of moe_intermediate_size (found 5000, expected a "
                      "multiple of 1408)"),
            std::string::npos);
  const std::string listed =
      with(with(kDeepSeekV3, "layers\":61", "layers\":3"), "\"first_k_dense_replace\":3",
           R"("mlp_layer_types":["dense","sparse","sparse"])");
  EXPECT_EQ(config(listed)->first_dense_layers, 1);
  EXPECT_NE(error_of(config(with(listed, "\"dense\",", ""))).find("does not list every layer"),
            std::string::npos);
}

/// Which layers have a window, as 1, and which have none.
std::string windows(const Expected<ModelDescription>& model) {
  if (!model) return to_string(model.error());
  std::string text = std::to_string(model->window) + ":";
  for (std::int64_t layer = 0; layer < model->layers; ++layer) text += is_windowed(*model, layer) ? '1' : '0';
  return text;
}

TEST(ModelConfig, ReadsSlidingWindows) {
  const std::string window = R"(,"sliding_window":128)";
  EXPECT_EQ(windows(config(dense_config("llama"))), "0:0000");
  EXPECT_EQ(windows(config(dense_config("mistral", R"(,"sliding_window":null)"))), "0:0000");
  EXPECT_EQ(windows(config(dense_config("mistral", window))), "128:1111");
  EXPECT_EQ(windows(config(dense_config("qwen2", window + R"(,"max_window_layers":2)"))), "0:0000") << "off";
  const std::string on = window + R"(,"use_sliding_window":true,"max_window_layers":)";
  EXPECT_EQ(windows(config(dense_config("qwen2", on + "0"))), "128:1111");
  EXPECT_NE(windows(config(dense_config("qwen2", on + "2"))).find("do not repeat"), std::string::npos);
  EXPECT_EQ(windows(config(dense_config("gemma2", window))), "128:1010");
  EXPECT_EQ(windows(config(dense_config("gemma3_text", window + R"(,"sliding_window_pattern":3)"))),
            "128:1101");
  EXPECT_EQ(windows(config(kGptOss)), "128:1010");
  const std::string types = R"(,"layer_types":["full_attention","full_attention","full_attention",)";
  EXPECT_EQ(windows(config(dense_config("mistral", window + types + R"("full_attention"])"))), "0:0000");
  EXPECT_EQ(windows(model_from_name("gpt-oss-120b:layers=4")), "128:1010");
}

TEST(ModelConfig, RefusesWindowsThatItCannotDescribe) {
  EXPECT_EQ(
      windows(config(with(kGptOss, R"("full_attention"])", R"("sliding_attention"])"))),
      "config.json: key \"sliding_window\" is for layers that do not repeat (found layer_types, "
      "sliding_window_pattern or max_window_layers, expected a window in every layer, or in all but each "
      "n-th, counted from the first)");
  EXPECT_NE(windows(config(with(kGptOss, R"("full_attention"])", R"("linear_attention"])")))
                .find("has layers that cannot be described (found linear_attention"),
            std::string::npos);
  EXPECT_NE(windows(config(with(kGptOss, R"(,"full_attention"])", "]"))).find("does not list every layer"),
            std::string::npos);
  EXPECT_NE(windows(config(dense_config("llama", R"(,"sliding_window":4096)")))
                .find("\"sliding_window\" is not a key of model_type llama (found 4096, expected null)"),
            std::string::npos);
  EXPECT_NE(windows(config(dense_config("mistral"))).find("\"sliding_window\" cannot be read (found nothing"),
            std::string::npos);
  EXPECT_NE(windows(config(with(kGptOss, "\"sliding_window\":128", "\"sliding_window\":null")))
                .find("has layers with a window, but sliding_window is not set"),
            std::string::npos);
}

}  // namespace
}  // namespace ppsim
