// Tables of one kind of run each, as their sources publish them.

#include <algorithm>
#include <array>
#include <initializer_list>
#include <sstream>

#include "given_run.hpp"
#include "metric.hpp"
#include "ppsim/core/ir/concatenated.hpp"
#include "readers.hpp"

namespace ppsim::planner {
namespace {

constexpr double kBytesPerMiB = 1048576.0;

std::string source_of(const SheetRow& row, const std::string& usual) {
  const std::string source = row.text("source");
  return source.empty() ? usual : source;
}

std::optional<double> needed(SheetRow& row, std::string_view column) {
  const auto value = row.positive(column);
  if (!value) row.refuse(column, "a measurement is missing", "a number above 0");
  return value;
}

/// Nothing where it is more than any run has.
std::optional<int> product(std::initializer_list<int> factors) {
  constexpr std::int64_t kMax = 1 << 20;
  std::int64_t all = 1;
  for (const int factor : factors) {
    all *= factor;
    if (all > kMax) return std::nullopt;
  }
  return static_cast<int>(all);
}

std::string spread_label(const GivenRun& given) {
  std::ostringstream label;
  label << given.model << ", " << given.gpus.value_or(0) << " GPUs, tp " << given.tensor.value_or(0) << " pp "
        << given.pipeline.value_or(0);
  if (given.chunks.value_or(1) > 1) label << " vp " << *given.chunks;
  if (given.context.value_or(1) > 1) label << " cp " << *given.context;
  if (given.expert.value_or(1) > 1) label << " ep " << *given.expert;
  label << ", batch " << given.global_batch.value_or(0) << " of " << given.microbatch.value_or(0);
  return label.str();
}

/// SimuMax leaves one dense layer in the DeepSeek-V3 that it cuts (docs/b200/b200_release_v1.2_summary.md).
std::string cut_model(const std::string& model, std::optional<int> layers) {
  if (!layers) return model;
  const auto whole = model_called(model);
  std::string fields = "layers=" + std::to_string(*layers);
  if (whole && whole->first_dense_layers > 1 && *layers < whole->layers) fields += ",first_dense_layers=1";
  return model + "[" + fields + "]";
}

/// The largest of the GPUs of each pipeline rank, which follow each other: tensor, context and data parallel
/// groups lie within a pipeline rank.
std::vector<MeasuredMemory> memory_by_rank(SheetRow& row, int pipeline) {
  const std::vector<double> megabytes = row.positives("allocated_mb_per_rank");
  const auto allocated = row.positive("allocated_gib");
  if (megabytes.empty()) {
    if (!allocated) return {};
    return {{.rank = {}, .bytes = *allocated * 1024 * kBytesPerMiB}};
  }
  if (megabytes.size() % as_size(pipeline) != 0) {
    row.refuse("allocated_mb_per_rank", "GPUs do not divide over the pipeline ranks",
               "a multiple of " + std::to_string(pipeline) + " numbers");
    return {};
  }
  const auto each = static_cast<std::ptrdiff_t>(megabytes.size()) / pipeline;
  std::vector<MeasuredMemory> memory;
  for (int rank = 0; rank < pipeline; ++rank) {
    const auto first = megabytes.begin() + rank * each;
    memory.push_back({.rank = rank, .bytes = *std::max_element(first, first + each) * kBytesPerMiB});
  }
  return memory;
}

/// The layout that NVIDIA's recipe of DeepSeek-V3 has for so many stages: full ones from the front, and the
/// layer of multi-token prediction before the loss.
/// Source: NVIDIA-NeMo/Megatron-Bridge, src/megatron/bridge/recipes/deepseek/deepseek_v3.py.
std::string deepseek_layout(const ModelDescription& model, int stages) {
  if (stages == 32) return "Et|(tt|)*30mL";
  PipelineLayout layout = usual_layout(model.layers, stages);
  layout.stages.back().mtp = 1;
  return layout_text(layout);
}

/// A recipe of NVIDIA's with CUDA graphs: of attention and routing, or of whole iterations in MXFP8.
/// Source: NVIDIA-NeMo/Megatron-Bridge, scripts/performance/configs; pull requests 3983, 4249, 4498 and 4606.
struct GraphedRecipe {
  std::string_view model, gpu;  ///< beginning of the name; end of the system
  std::string_view since;       ///< release
  bool whole = false;
};
constexpr auto kGraphedRecipes = std::to_array<GraphedRecipe>({{"deepseek", "-GB200", "26.06", true},
                                                               {"deepseek", "-GB300", "26.06", true},
                                                               {"deepseek", "-B300", "26.06", true},
                                                               {"gpt-oss", "-GB200", "26.06", true},
                                                               {"gpt-oss", "-GB300", "26.06", true},
                                                               {"qwen3", "-GB200", "26.06", true},
                                                               {"qwen3", "-GB300", "26.06", true},
                                                               {"qwen3", "-B200", "26.06", true},
                                                               {"qwen3", "-B300", "26.06", true},
                                                               {"deepseek", "-GB200", "", false},
                                                               {"deepseek", "-GB300", "", false},
                                                               {"gpt-oss", "-GB300", "", false},
                                                               {"gpt-oss", "-B300", "", false},
                                                               {"qwen3-235b", "-GB200", "", false},
                                                               {"qwen3-235b", "-GB300", "", false},
                                                               {"qwen3-30b", "-B200", "26.04", false}});

/// Dense models have graphs on Blackwell; of mixtures those whose recipe has attention in one.
std::string recipe_stack(const SheetRow& row, const GivenRun& given) {
  const auto model = model_called(given.model);
  const bool blackwell = given.system.ends_with("B200") || given.system.ends_with("B300");
  if (!model || model->experts == 0) return blackwell ? "megatron-bridge" : "megatron-core";
  const bool mxfp8 = lower_case(given.precision) == "mxfp8";
  const auto found = std::ranges::find_if(kGraphedRecipes, [&](const GraphedRecipe& recipe) {
    return model->name.starts_with(recipe.model) && given.system.ends_with(recipe.gpu) &&
           row.text("release") >= recipe.since && (mxfp8 || !recipe.whole);
  });
  if (found == kGraphedRecipes.end()) return "megatron-core";
  return found->whole ? "megatron-bridge-graphed-experts" : "megatron-bridge";
}

/// GPT-2's vocabulary as Megatron pads it: to a multiple of 128 on every tensor-parallel rank.
int padded_vocabulary(int tensor) {
  constexpr int kVocabulary = 50257;
  const int multiple = 128 * tensor;
  return (kVocabulary + multiple - 1) / multiple * multiple;
}

/// A model of llm-foundry: heads of 128 channels, of 64 in the two smallest.
/// Source: mosaicml/llm-foundry, scripts/train/yamls/pretrain.
struct MptShape {
  std::string_view name;
  int layers, hidden, heads;
};
constexpr auto kMptShapes = std::to_array<MptShape>({{"125m", 12, 768, 12},
                                                     {"350m", 24, 1024, 16},
                                                     {"760m", 24, 1536, 12},
                                                     {"1b", 24, 2048, 16},
                                                     {"3b", 32, 2560, 20},
                                                     {"7b", 32, 4096, 32},
                                                     {"13b", 40, 5120, 40},
                                                     {"30b", 48, 7168, 56},
                                                     {"70b", 80, 8192, 64}});

std::string mpt_called(SheetRow& row) {
  std::string name = lower_case(row.text("Model"));
  const auto shape = std::ranges::find(kMptShapes, name, &MptShape::name);
  if (shape == kMptShapes.end()) {
    row.refuse("Model", "unknown model of llm-foundry", "one from 125m to 70b");
    return name;
  }
  return concatenated("gpt-", name, "[layers=", shape->layers, ",hidden=", shape->hidden,
                      ",heads=", shape->heads, ",vocab=50368]");
}

}  // namespace

MeasuredRow read_one_node(SheetRow& row) {
  GivenRun given{.model = cut_model(row.text("model"), row.whole("layers")),
                 .system = row.text("system"),
                 .precision = row.text("precision")};
  if (given.system.empty()) given.system = "dgx-b200";
  if (given.precision.empty()) given.precision = "bf16";
  given.tensor = row.whole("tp");
  given.pipeline = row.whole("pp");
  const auto data = row.whole("dp");
  given.context = row.whole("cp");
  given.expert = row.whole("ep");
  given.sequence = row.whole("seq");
  given.microbatch = row.whole("mbs").value_or(1);
  const auto microbatches = row.whole("microbatches");
  if (given.tensor && given.pipeline && data)
    given.gpus = product({*given.tensor, *given.pipeline, *data, given.context.value_or(1)});
  if (data && microbatches) given.global_batch = product({*data, *microbatches, *given.microbatch});
  read_software(row, "megatron-core-no-overlap", given);
  if (given.recompute.empty()) given.recompute = "none";
  MeasuredRow result{.source = source_of(row, "SimuMax B200"),
                     .label = spread_label(given) + ", sequence " + row.text("seq"),
                     .run = described(given)};
  if (const auto step = needed(row, "step_ms")) result.seconds = *step * 1e-3;
  result.memory = memory_by_rank(row, given.pipeline.value_or(1));
  return result;
}

MeasuredRow read_megatron_bridge(SheetRow& row) {
  GivenRun given = given_by_options(row, "num_gpus", "sequence_length");
  const std::string stack = recipe_stack(row, given);
  read_software(row, stack, given);
  // Its recipes of GPT-OSS without graphs make norms and activations again.
  if (given.recompute.empty() && stack == "megatron-core" && lower_case(given.model).starts_with("gpt oss"))
    given.recompute = "selective";
  MeasuredRow result{.source = source_of(row, "Megatron-Bridge " + row.text("release")),
                     .label = spread_label(given) + ", " + given.system + " " + given.precision,
                     .run = described(given)};
  const auto rate = needed(row, "tokens_per_s_per_gpu");
  auto* run = std::get_if<RunDescription>(&result.run);
  if (run == nullptr || !rate) return result;
  if (run->layout.empty() && run->model == model_from_name("deepseek-v3"))
    run->layout = deepseek_layout(run->model, run->pipeline * run->chunks);
  result.seconds = step_seconds("tokens/s/GPU", *rate, *run);
  return result;
}

MeasuredRow read_vtrain(SheetRow& row) {
  GivenRun given{.model = {}, .system = "vtrain", .precision = "fp16"};
  given.gpus = row.whole("# GPUs");
  given.global_batch = row.whole("global batch");
  given.microbatch = row.whole("micro batch");
  given.sequence = row.whole("sequence length");
  given.tensor = row.whole("tensor parallelism");
  given.pipeline = row.whole("pipeline parallelism");
  const auto data = row.whole("data parallelism");
  const auto layers = row.whole("# layers");
  const auto hidden = row.whole("hidden size");
  const auto heads = row.whole("attention heads");
  if (layers && hidden && heads) {
    given.model =
        concatenated("gpt-", row.text("Parameters (billion)"), "b[layers=", *layers, ",hidden=", *hidden,
                     ",heads=", *heads, ",vocab=", padded_vocabulary(given.tensor.value_or(1)), "]");
  }
  read_software(row, "deepspeed", given);
  if (given.recompute.empty()) given.recompute = "full";
  if (data && given.gpus && given.tensor && given.pipeline &&
      std::int64_t{*data} * *given.tensor * *given.pipeline != *given.gpus)
    row.refuse("data parallelism", "tensor x data x pipeline is not the number of GPUs",
               "what makes " + std::to_string(*given.gpus));
  MeasuredRow result{.source = source_of(row, "vTrain"), .label = {}, .run = described(given)};
  given.model = "GPT " + row.text("Parameters (billion)") + "B";
  result.label = spread_label(given);
  if (const auto step = needed(row, "iteration time (ms)")) result.seconds = *step * 1e-3;
  return result;
}

MeasuredRow read_llm_foundry(SheetRow& row) {
  GivenRun given{.model = mpt_called(row), .system = row.text("GPU"), .precision = "bf16"};
  given.gpus = row.whole("# GPUs");
  given.microbatch = row.whole("MicroBatchSize");
  given.sequence = row.whole("SeqLen (T)");
  given.tensor = given.pipeline = 1;
  given.fsdp = given.gpus;
  const auto microbatches = row.whole("GradAccum");
  if (given.gpus && given.microbatch && microbatches) {
    given.global_batch = product({*given.gpus, *given.microbatch, *microbatches});
    if (!given.global_batch)
      row.refuse("MicroBatchSize", "GPUs times microbatches of this size are more than a run has",
                 "at most 1,048,576 sequences");
  }
  read_software(row, "llm-foundry", given);
  const std::string checkpointing = lower_case(row.text("Activation Checkpointing"));
  if (checkpointing != "true" && checkpointing != "false")
    row.refuse("Activation Checkpointing", "no such choice", "True or False");
  if (given.recompute.empty()) given.recompute = checkpointing == "true" ? "full" : "none";
  MeasuredRow result{.source = source_of(row, "llm-foundry"), .label = {}, .run = described(given)};
  given.model = "MPT " + row.text("Model");
  result.label = spread_label(given) + ", sequence " + row.text("SeqLen (T)") + ", " + row.text("GPU");
  const auto rate = needed(row, "Throughput (T/s/GPU)");
  const auto* run = std::get_if<RunDescription>(&result.run);
  if (run != nullptr && rate) result.seconds = step_seconds("tokens/s/GPU", *rate, *run);
  return result;
}

}  // namespace ppsim::planner
