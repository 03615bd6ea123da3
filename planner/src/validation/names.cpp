#include <algorithm>
#include <array>

#include "given_run.hpp"
#include "ppsim/workload/cluster.hpp"

namespace ppsim::planner {
namespace {

struct Alias {
  std::string_view called;
  std::string_view preset;
};

constexpr auto kModelAliases = std::to_array<Alias>({
    {"deepseekv2", "deepseek-v2"},
    {"deepseekv3", "deepseek-v3"},
    {"grok1", "grok-1"},
    {"grok1-314b", "grok-1"},
    {"llama3-405b", "llama3.1-405b"},
    {"llama3.1-70b", "llama3-70b"},
    {"llama3.1-8b", "llama3-8b"},
});

/// The node of a system. Selene is made of DGX A100. Nodes of A100 have 800 Gb/s in vTrain's tables, and
/// 1,600 in llm-foundry's.
constexpr auto kClusterAliases = std::to_array<Alias>({
    {"selene-a100-80g", "dgx-a100"},
    {"a100-80g", "dgx-a100"},
    {"a100-80gb", "dgx-a100"},
    {"a100-40gb", "azure-nd96asr-v4"},
    {"h100-80gb", "dgx-h100"},
    {"h100", "dgx-h100"},
    {"h200", "dgx-h200"},
    {"b200", "dgx-b200"},
    {"b300", "dgx-b300"},
    {"gb200", "gb200-nvl72"},
    {"dgx-gb200", "gb200-nvl72"},
    {"vtrain", "a100-800gbps"},
});

/// Names begin so: layers of a state-space model between those of attention.
constexpr auto kHybrids = std::to_array<std::string_view>({"nemotron-3", "nemotron-h", "mamba", "jamba"});

/// In small letters, words joined by dashes.
std::string plain_name(const std::string& text) {
  std::string name = lower_case(text);
  std::ranges::replace(name, '_', '-');
  std::ranges::replace(name, ' ', '-');
  return name;
}

template <class Aliases>
std::string preset_of(const Aliases& aliases, const std::string& called) {
  const auto found = std::ranges::find(aliases, called, &Alias::called);
  return found == aliases.end() ? called : std::string(found->preset);
}

bool is_preset(const std::string& name) {
  return std::ranges::find(model_presets(), name, &ModelDescription::name) != model_presets().end();
}

/// A GPT in the shape of Megatron: four times as wide within the MLP, embeddings tied.
tl::expected<ModelDescription, std::string> gpt_of(const std::string& name, const std::string& fields) {
  for (const char* needed : {"layers=", "hidden=", "heads="}) {
    if (("," + fields).find(std::string(",") + needed) == std::string::npos)
      return tl::unexpected("the shape of " + name + " is not given: layers, hidden and heads");
  }
  auto model = model_from_name("gpt3-175b:" + fields);
  if (!model) return tl::unexpected(to_string(model.error()));
  model->name = name;
  if (model->hidden % model->heads != 0)
    return tl::unexpected("the heads of " + name + " do not divide its hidden size");
  model->head_dim = model->hidden / model->heads;
  model->ffn = 4 * model->hidden;
  return *std::move(model);
}

}  // namespace

tl::expected<ModelDescription, std::string> model_called(const std::string& text) {
  const std::size_t bracket = text.find_first_of("[:");
  const std::string name = preset_of(kModelAliases, plain_name(text.substr(0, bracket)));
  std::string fields;
  if (bracket != std::string::npos) {
    const bool closes = text[bracket] == '[';
    if (closes && text.back() != ']')
      return tl::unexpected("the shape of " + name + " has no closing bracket");
    fields = text.substr(bracket + 1, text.size() - bracket - (closes ? 2 : 1));
  }
  for (const std::string_view hybrid : kHybrids) {
    if (name.starts_with(hybrid))
      return tl::unexpected("the model is not a transformer: " + text + " has layers of a state-space model");
  }
  if (!is_preset(name) && name.starts_with("gpt-")) return gpt_of(name, fields);
  if (!is_preset(name)) return tl::unexpected("the shape of the model " + text + " is not known");
  auto model = model_from_name(fields.empty() ? name : name + ":" + fields);
  if (!model) return tl::unexpected(to_string(model.error()));
  return *std::move(model);
}

tl::expected<std::string, std::string> cluster_called(const std::string& text) {
  const std::string name = preset_of(kClusterAliases, plain_name(text));
  const bool known = std::ranges::find(node_presets(), name, &NodeDescription::name) != node_presets().end();
  if (!known) return tl::unexpected("the system " + text + " is not known");
  return name;
}

}  // namespace ppsim::planner
