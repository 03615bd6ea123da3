#include "ppsim/workload/model.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "ppsim/workload/parallelism.hpp"

namespace ppsim {
namespace {

ModelDescription model(const std::string& name) { return model_from_name(name).value(); }

TEST(Model, PresetsHaveTheirPublishedSize) {
  // Billions of parameters as published or recomputed from the public configuration, to three digits.
  const std::map<std::string, double> expected = {{"llama3-70b", 70.55},      {"llama3.1-405b", 405.85},
                                                  {"llama2-7b", 6.74},        {"gpt3-175b", 174.6},
                                                  {"mixtral-8x7b", 46.7},     {"grok-1", 315.7},
                                                  {"deepseek-v3", 671.03},    {"t5-11b", 11.31},
                                                  {"gemma2-27b", 27.23},      {"vit-l", 0.302},
                                                  {"deepseek-v2", 235.7},     {"gpt-oss-120b", 116.8},
                                                  {"gpt-126m", 0.124},        {"gpt-5b", 5.04},
                                                  {"bert-base", 0.108},       {"bert-large", 0.333},
                                                  {"paligemma-text", 2.51},   {"paligemma-vision", 0.411},
                                                  {"t5-v1.1-xl", 2.85},       {"imagen-text-encoder", 4.76},
                                                  {"fuji-8b-v3", 8.03},       {"qwen3-30b-a3b", 30.53},
                                                  {"qwen3-235b-a22b", 235.1}, {"gpt-oss-20b", 20.9},
                                                  {"kimi-k2", 1026.4}};
  for (const auto& [name, billions] : expected) {
    EXPECT_NEAR(static_cast<double>(parameter_count(model(name))) / 1e9, billions, 0.005 * billions) << name;
  }
}

TEST(Model, PresetNamesAreUnique) {
  std::map<std::string, int> count;
  for (const ModelDescription& preset : model_presets()) {
    EXPECT_EQ(++count[preset.name], 1) << preset.name;
    EXPECT_TRUE(check_model(preset).has_value()) << preset.name;
  }
}

TEST(Model, OverridesFields) {
  const ModelDescription cut = model("llama3.1-405b:layers=42,sequence=4096");
  EXPECT_EQ(cut.layers, 42);
  EXPECT_EQ(cut.sequence, 4096);
  EXPECT_EQ(cut.hidden, model("llama3.1-405b").hidden);
  EXPECT_EQ(model("gpt3-175b:heads=48").kv_heads, 48) << "each head has its own";
  EXPECT_EQ(model("llama3-8b:heads=64").kv_heads, 8) << "heads share them in groups";
}

TEST(Model, RefusesUnknownNamesFieldsAndNumbers) {
  EXPECT_NE(model_from_name("llama9").error().place.expected.find("llama3-70b"), std::string::npos);
  EXPECT_NE(model_from_name("llama3-70b:wings=2").error().place.expected.find("hidden"), std::string::npos);
  EXPECT_EQ(model_from_name("llama3-70b:layers=many").error().place.found, "many");
  EXPECT_FALSE(model_from_name("llama3-70b:layers=0").has_value());
  EXPECT_FALSE(model_from_name("llama3-70b:layers=99999999999999999999").has_value());
}

TEST(Model, OverridesWidthsOfLatentAttention) {
  const ModelDescription direct = model("deepseek-v3:q_lora=0,kv_lora=256");
  EXPECT_EQ(direct.kv_lora, 256);
  const std::int64_t queries = 128 * (128 + 64);
  EXPECT_EQ(attention_parameters(direct),
            7168 * queries + 7168 * (256 + 64) + 256 * 128 * (128 + 128) + 128 * 128 * 7168 + 2 * 7168 + 256)
      << "queries come from the hidden state itself";
  const auto refused = [](const char* name) { return to_string(model_from_name(name).error()); };
  EXPECT_EQ(
      refused("deepseek-v3:kv_lora=0"),
      "model deepseek-v3: latent attention needs its widths (found q_lora=1536, kv_lora=0, qk_nope=128, "
      "qk_rope=64, v_head=128, expected kv_lora, qk_nope + qk_rope and v_head above 0)");
  EXPECT_NE(refused("llama3-8b:kv_lora=512").find("its attention has no latents"), std::string::npos);
}

TEST(Cluster, PresetsAreWholeAndNamedOnce) {
  std::map<std::string, int> count;
  for (const NodeDescription& preset : node_presets()) {
    EXPECT_EQ(++count[preset.name], 1) << preset.name;
    const auto cluster = cluster_from_name(preset.name, 2);
    ASSERT_TRUE(cluster.has_value()) << preset.name;
    EXPECT_GT(cluster->node.node_gbytes.value_or(0), 0) << preset.name;
    EXPECT_GT(cluster->gpu.bf16_achievable_tflops, 0) << preset.name;
    EXPECT_LT(cluster->gpu.bf16_achievable_tflops, cluster->gpu.bf16_tflops) << preset.name;
    EXPECT_EQ(cluster->gpu.fp8_tflops > 0, cluster->gpu.fp8_achievable_tflops > 0) << preset.name;
  }
}

TEST(Cluster, NamesNodesAndGpus) {
  const ClusterDescription cluster = cluster_from_name("dgx-h100", 8).value();
  EXPECT_EQ(cluster.gpu_count(), 64);
  EXPECT_EQ(cluster.gpu.memory_bytes, 80'000'000'000);
  EXPECT_FALSE(cluster_from_name("dgx-h100", 0).has_value());
  EXPECT_NE(cluster_from_name("abacus", 1).error().place.expected.find("dgx-h100"), std::string::npos);
}

/// Racks of 18 nodes of 4 GPUs.
TEST(Cluster, JobsTakeAsManyNodesOfEachDomain) {
  const auto domain = [](const char* name, int nodes) {
    return cluster_from_name(name, nodes)->job_domain();
  };
  EXPECT_EQ(domain("gb200-nvl72", 64), 4 * 16);
  EXPECT_EQ(domain("gb200-nvl72", 36), 4 * 18);
  EXPECT_EQ(domain("gb200-nvl72", 5), 4 * 5);
  EXPECT_EQ(domain("gb200-nvl72", 19), 4) << "a prime number of nodes";
  EXPECT_EQ(domain("dgx-h100", 7), 8);
  ClusterDescription cluster = cluster_from_name("dgx-h100", 6).value();
  cluster.node.nvlink_domain = 31;
  EXPECT_EQ(cluster.job_domain(), 24) << "whole nodes";
  cluster.node.nvlink_domain = 4;
  EXPECT_EQ(cluster.job_domain(), 4) << "half a node";
}

TEST(Cluster, SaysOfPartsOfDomainsHowLargeTheyAre) {
  const auto text = [](const char* name, int nodes) {
    return cluster_from_name(name, nodes)->domains_text();
  };
  EXPECT_EQ(text("gb200-nvl72", 37),
            "NVLink domains of 4 GPUs: 37 nodes do not divide evenly into larger ones");
  EXPECT_EQ(text("gb200-nvl72", 64),
            "NVLink domains of 64 GPUs: 64 nodes do not divide evenly into larger ones");
  EXPECT_EQ(text("gb200-nvl72", 36), "");
  EXPECT_EQ(text("gb200-nvl72", 17), "") << "a part of one domain";
  EXPECT_EQ(text("dgx-h100", 37), "");
  ClusterDescription cluster = cluster_from_name("dgx-h100", 6).value();
  cluster.node.nvlink_domain = 31;
  EXPECT_EQ(cluster.domains_text(), "") << "three of three whole nodes";
}

TEST(Cluster, ReadsAFile) {
  const auto read =
      cluster_from_json(R"({"gpus_per_node":4,"node_gbytes_per_s":100,"gpu":"h100-sxm-80gb"})", "c.json", 2);
  ASSERT_TRUE(read.has_value()) << to_string(read.error());
  EXPECT_EQ(read->gpu_count(), 8);
  EXPECT_FALSE(cluster_from_json(R"({"gpus_per_node":4,"node_gbytes_per_s":100,"gpu":"tpu"})", "c.json", 2)
                   .has_value());
  EXPECT_FALSE(cluster_from_json(R"({"gpus_per_node":4})", "c.json", 2).has_value());
  EXPECT_FALSE(
      cluster_from_json(R"({"gpus_per_node":4,"node_gbytes_per_s":100,"gpu":"h100-sxm-80gb"})", "c.json", 0)
          .has_value());
}

TEST(Cluster, ReadsAGpuOfItsOwn) {
  const auto read = cluster_from_json(
      R"({"name":"lab","gpus_per_node":4,"nvlink_domain":2,"node_gbytes_per_s":50,"latency_us":5,"nvlink_sums":0.85,
          "gpu":{"name":"toy","bf16_tflops":100,"memory_bytes":32000000000,"memory_tbps":1.5,
                 "nvlink_gbytes_per_s":150}})",
      "c.json", 2);
  ASSERT_TRUE(read.has_value()) << to_string(read.error());
  EXPECT_EQ(read->node, (NodeDescription{.name = "lab",
                                         .gpu = "toy",
                                         .gpus = 4,
                                         .nvlink_domain = 2,
                                         .node_gbytes = 50,
                                         .latency_us = 5,
                                         .nvlink_sums = 0.85}));
  EXPECT_DOUBLE_EQ(read->gpu.bf16_achievable_tflops, 80);
  EXPECT_EQ(read->gpu.fp8_tflops, 0);
  EXPECT_EQ(read->gpu.memory_bytes, 32'000'000'000);
  EXPECT_EQ(read->gpu.host_gbytes, 32);
}

/// The error of a cluster file with this text.
std::string cluster_error(const std::string& text) {
  const auto read = cluster_from_json(text, "c.json", 1);
  return read ? "nothing" : to_string(read.error());
}

TEST(Cluster, SaysWhereAFileIsWrong) {
  EXPECT_EQ(cluster_error(R"({"gpus_per_node":4,"gpu":"h100-sxm-80gb"})"),
            "c.json:1:1: the whole file: a missing key (found nothing, expected \"node_gbytes_per_s\")");
  EXPECT_NE(cluster_error("{\"gpus_per_node\":4,\n\"node_gbytes\":100}").find("c.json:2:"),
            std::string::npos);
  const std::string node = R"({"gpus_per_node":4,"node_gbytes_per_s":100,"gpu":)";
  EXPECT_NE(cluster_error(node + R"("tpu"})").find("/gpu: an unknown GPU (found \"tpu\""), std::string::npos);
  EXPECT_NE(cluster_error(node + "7}").find("expected a string or an object"), std::string::npos);
  EXPECT_NE(
      cluster_error(node + R"({"bf16_tflops":-1,"memory_bytes":1,"memory_tbps":1,)"
                           R"("nvlink_gbytes_per_s":1}})")
          .find("/gpu/bf16_tflops: a value that does not belong here (found -1, expected a number above 0"),
      std::string::npos);
  EXPECT_NE(cluster_error(node + R"("h100-sxm-80gb","nvlink_sums":2})")
                .find("(found 2, expected a number in [0, 1])"),
            std::string::npos);
  EXPECT_NE(cluster_error("[]").find("expected an object"), std::string::npos);
}

TEST(Cluster, NoProductIsFasterThanThePeak) {
  const auto cluster = [](const std::string& rates) {
    return cluster_error(R"({"gpus_per_node":8,"node_gbytes_per_s":100,"gpu":{"memory_bytes":80000000000,)" +
                         rates + R"(,"memory_tbps":3,"nvlink_gbytes_per_s":450}})");
  };
  EXPECT_NE(cluster(R"("bf16_tflops":756,"bf16_achievable_tflops":800)")
                .find("/gpu/bf16_achievable_tflops: more than the GPU can do (found 800, expected at most "
                      "the peak, 756)"),
            std::string::npos);
  EXPECT_NE(cluster(R"("bf16_tflops":756,"fp8_achievable_tflops":800)").find("/gpu/fp8_achievable_tflops"),
            std::string::npos);
}

/// As data sheets of H100, A100 and B200 give it.
TEST(Cluster, ARateWithSparsityIsRefused) {
  const auto cluster = [](const std::string& rates, const std::string& memory) {
    return cluster_error(R"({"gpus_per_node":8,"node_gbytes_per_s":100,"gpu":{"memory_bytes":80000000000,)" +
                         rates + R"(,"memory_tbps":)" + memory + R"(,"nvlink_gbytes_per_s":450}})");
  };
  EXPECT_NE(cluster(R"("bf16_tflops":1979)", "3.35")
                .find("/gpu/bf16_tflops: a rate with sparsity, twice that of dense products (found 1979, "
                      "expected 989, as h100-sxm-80gb has)"),
            std::string::npos);
  EXPECT_NE(cluster(R"("bf16_tflops":989,"fp8_tflops":3958)", "3.35").find("/gpu/fp8_tflops"),
            std::string::npos);
  EXPECT_NE(cluster(R"("bf16_tflops":624)", "2.039").find("expected 312"), std::string::npos);
  EXPECT_EQ(cluster(R"("bf16_tflops":989,"fp8_tflops":1979)", "3.35"), "nothing");
  EXPECT_EQ(cluster(R"("bf16_tflops":1979)", "6"), "nothing") << "of a GPU that nobody knows";
}

TEST(Parallelism, ChecksDivisibility) {
  const ClusterDescription cluster = cluster_from_name("dgx-h100", 8).value();
  Parallelism p{.tensor = 8, .pipeline = 4, .data = 2, .global_batch_size = 128};
  EXPECT_TRUE(check_parallelism(p, model("llama3-70b"), cluster).has_value());
  EXPECT_EQ(p.microbatches(), 64);
  p.data = 3;
  EXPECT_EQ(check_parallelism(p, model("llama3-70b"), cluster).error().place.expected,
            "64, or another number of nodes");
  p.data = 2;
  p.global_batch_size = 127;
  EXPECT_FALSE(check_parallelism(p, model("llama3-70b"), cluster).has_value());
  p.tensor = 0;
  EXPECT_FALSE(check_parallelism(p, model("llama3-70b"), cluster).has_value());
}

/// As Megatron-Core has it: a rank has some whole heads of keys and values, or one that others have, too.
TEST(Parallelism, RanksHaveWholeHeadsOfKeysAndValues) {
  const ClusterDescription cluster = cluster_from_name("dgx-h100", 1).value();
  const auto refused = [&](const std::string& name, int tensor) -> std::string {
    const auto good = check_parallelism({.tensor = tensor, .data = 8 / tensor, .global_batch_size = 8},
                                        model(name), cluster);
    return good ? "" : to_string(good.error());
  };
  EXPECT_EQ(
      refused("llama3-8b:heads=24,kv_heads=3", 2),
      "the heads of keys and values must be a multiple or a divisor of tp (found 3, expected a multiple "
      "or a divisor of 2)");
  EXPECT_EQ(refused("llama3-8b:heads=24,kv_heads=3", 1), "");
  EXPECT_EQ(refused("llama3-8b:kv_heads=1", 8), "");
  EXPECT_EQ(refused("llama3-8b:kv_heads=4", 8), "");
  EXPECT_EQ(refused("llama3-8b:kv_heads=4", 2), "");
}

}  // namespace
}  // namespace ppsim
