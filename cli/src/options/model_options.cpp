#include "model_options.hpp"

#include <algorithm>
#include <map>
#include <sstream>
#include <utility>

#include "command_line/validators.hpp"
#include "ppsim/core/text/nearest.hpp"
#include "ppsim/gpu_backend/stage_model/gpu_stage_model.hpp"

namespace ppsim::cli {
namespace {

constexpr std::string_view kTied = "tied=";

Expected<TransformerConfig> config_of(const ModelOptions& options, int stages) {
  TransformerConfig config;
  config.layers = std::max(4, stages);
  if (options.arithmetic == "float64") config.arithmetic = Arithmetic::float64;
  if (options.arithmetic == "integer") config.arithmetic = Arithmetic::integer_exact;
  if (options.arithmetic == "bf16") config.arithmetic = Arithmetic::bf16;
  if (options.arithmetic == "fp8") config.arithmetic = Arithmetic::fp8;
  if (options.optimizer == "adamw") config.optimizer = Optimizer::adamw;
  config.learning_rate = options.learning_rate;
  const std::pair<std::string_view, int TransformerConfig::*> fields[] = {
      {"layers", &TransformerConfig::layers},        {"hidden", &TransformerConfig::hidden},
      {"heads", &TransformerConfig::heads},          {"ffn", &TransformerConfig::ffn},
      {"vocab", &TransformerConfig::vocab},          {"sequence", &TransformerConfig::sequence},
      {"batch", &TransformerConfig::microbatch_size}};
  std::vector<std::string_view> known = keys_in(fields);
  known.insert(known.begin(), "tied");
  std::map<std::string, std::string> given;
  std::istringstream items(options.transformer);
  for (std::string item; std::getline(items, item, ',');) {
    const std::size_t equals = item.find('=');
    bool found = item.starts_with(kTied);  // see is_tied
    for (const auto& [name, field] : fields) {
      if (equals == std::string::npos || item.substr(0, equals) != name) continue;
      found = read_number(item.substr(equals + 1), config.*field);
    }
    const std::string key = item.substr(0, equals);
    const bool is_known = std::ranges::find(known, key) != known.end();
    if (!found && is_known && equals != std::string::npos) {
      return make_error(ErrorCode::bad_argument, "--transformer: " + key + " is no number that it can be",
                        {.found = item, .expected = "a whole number of at most 2147483647"});
    }
    if (!found) {
      return make_error(
          ErrorCode::bad_argument, "--transformer cannot be read" + (is_known ? "" : suggestion(key, known)),
          {.found = item,
           .expected = "key=number with layers, hidden, heads, ffn, vocab, sequence, batch; or tied=true"});
    }
    const std::string& first = given.emplace(key, item).first->second;
    if (first == item) continue;
    return make_error(ErrorCode::bad_argument, key + " is given twice, and differs",
                      {.found = first + " and " + item + " of --transformer", .expected = "one of the two"});
  }
  return config;
}

}  // namespace

void add_model_options(Command& command, ModelOptions& options) {
  command.add_option("--transformer", options.transformer,
                     "layers=,hidden=,heads=,ffn=,vocab=,sequence=,batch= of the model that is run; "
                     "tied=true: embedding and head share their weights");
  command
      .add_option(
          "--arithmetic", options.arithmetic,
          "float32, integer (exact, modulo 2^64); on the CPU float64; on GPUs bf16, or fp8 in the layers' "
          "products of weights")
      .show_default()
      .check(one_of({"float32", "float64", "integer", "bf16", "fp8"}));
  command.add_option("--optimizer", options.optimizer, "of the program's OPT actions: momentum or adamw")
      .show_default()
      .check(one_of({"momentum", "adamw"}));
  command.add_option("--learning-rate", options.learning_rate, "of the optimizer").show_default();
}

Expected<bool> is_tied(const ModelOptions& options) {
  bool tied = false;
  std::istringstream items(options.transformer);
  for (std::string item; std::getline(items, item, ',');) {
    if (!item.starts_with(kTied)) continue;
    const std::string value = item.substr(kTied.size());
    if (value != "true" && value != "false") {
      return make_error(ErrorCode::bad_argument, "--transformer cannot be read",
                        {.found = item, .expected = "tied=true or tied=false"});
    }
    tied = value == "true";
  }
  return tied;
}

Expected<std::unique_ptr<StageModel>> transformer_of(const ModelOptions& options, const BackendChoice& device,
                                                     int stages, std::vector<int> slice_lengths) {
  PPSIM_ASSIGN_OR_RETURN(auto config, config_of(options, stages));
  config.slice_lengths = std::move(slice_lengths);
  if (device.attention == "cudnn") config.attention = AttentionKernels::cudnn;
  if (device.attention == "gemm") config.attention = AttentionKernels::gemm;
  return make_transformer(config);
}

std::string kernels_text(const BackendChoice& device, const StageModel& model, const Pipeline& pipeline) {
  if (device.backend != "cuda" || model.on_gpu() == nullptr) return {};
  return model.on_gpu()->kernels_text(pipeline);
}

Expected<void> check_backend_of(const BackendChoice& device, const StageModel& model,
                                const Pipeline& pipeline) {
  if (device.backend != "cuda") return model.check(pipeline);
  if (model.on_gpu() != nullptr) return {};
  return make_error(ErrorCode::bad_argument, "the model has no kernels for a GPU",
                    {.found = "--backend cuda", .expected = "another --arithmetic"});
}

}  // namespace ppsim::cli
