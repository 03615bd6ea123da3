#include "ppsim/workload/stack.hpp"

#include <algorithm>
#include <array>

#include "io/json/file.hpp"
#include "ppsim/core/text/nearest.hpp"

namespace ppsim::workload {
namespace {

using nlohmann::json;

template <class Choice>
struct Spelling {
  std::string_view word;
  Choice choice;
};

constexpr auto kKernels = std::to_array<Spelling<AttentionKernel>>({{"flash", AttentionKernel::flash},
                                                                    {"flash-2", AttentionKernel::flash_2},
                                                                    {"flash-1", AttentionKernel::flash_1},
                                                                    {"unfused", AttentionKernel::unfused}});
constexpr auto kSelective =
    std::to_array<Spelling<SelectiveRecompute>>({{"attention-core", SelectiveRecompute::attention_core},
                                                 {"elementwise", SelectiveRecompute::elementwise},
                                                 {"up-projections", SelectiveRecompute::up_projections}});
constexpr auto kContext = std::to_array<Spelling<ContextExchange>>(
    {{"ring", ContextExchange::ring}, {"all-to-all", ContextExchange::all_to_all}});
constexpr auto kWeights =
    std::to_array<Spelling<QuantisedWeights>>({{"transient", QuantisedWeights::transient},
                                               {"cached", QuantisedWeights::cached},
                                               {"primary", QuantisedWeights::primary}});

constexpr auto kInputs = std::to_array<Spelling<InputCopies>>({{"prefetched", InputCopies::prefetched},
                                                               {"pinned", InputCopies::pinned},
                                                               {"pageable", InputCopies::pageable},
                                                               {"broadcast", InputCopies::broadcast}});

/// The schema has seen that the word is one of these.
template <class Spellings, class Choice>
void read_choice(const json& root, const char* key, const Spellings& spellings, Choice& choice) {
  if (!root.contains(key)) return;
  for (const auto& spelling : spellings) {
    if (root[key] == spelling.word) choice = spelling.choice;
  }
}

template <class Spellings, class Choice>
std::string_view word_of(const Spellings& spellings, Choice choice) {
  for (const auto& spelling : spellings) {
    if (spelling.choice == choice) return spelling.word;
  }
  return {};
}

void read_choices(const json& root, SoftwareStack& stack) {
  read_choice(root, "attention", kKernels, stack.attention);
  read_choice(root, "selective", kSelective, stack.selective);
  read_choice(root, "context", kContext, stack.context);
  read_choice(root, "weights", kWeights, stack.weights);
  read_choice(root, "inputs", kInputs, stack.inputs);
}

void read_switches(const json& root, SoftwareStack& stack) {
  for (const auto& [key, member] : {std::pair{"sequence_parallel", &SoftwareStack::sequence_parallel},
                                    {"overlap_tensor", &SoftwareStack::overlap_tensor},
                                    {"overlap_experts", &SoftwareStack::overlap_experts},
                                    {"overlap_data", &SoftwareStack::overlap_data},
                                    {"overlap_pipeline", &SoftwareStack::overlap_pipeline},
                                    {"sharded_optimizer", &SoftwareStack::sharded_optimizer},
                                    {"fused_weight_gradient", &SoftwareStack::fused_weight_gradient},
                                    {"fused_cross_entropy", &SoftwareStack::fused_cross_entropy},
                                    {"graphs", &SoftwareStack::graphs},
                                    {"graphed_experts", &SoftwareStack::graphed_experts},
                                    {"split_experts", &SoftwareStack::split_experts},
                                    {"fused_experts", &SoftwareStack::fused_experts},
                                    {"compiled", &SoftwareStack::compiled},
                                    {"reruns_layers", &SoftwareStack::reruns_layers},
                                    {"quantised_attention", &SoftwareStack::quantised_attention},
                                    {"quantised_gates", &SoftwareStack::quantised_gates}}) {
    stack.*member = root.value(key, stack.*member);
  }
}

}  // namespace

StackWords words_of(const SoftwareStack& stack) {
  return {word_of(kKernels, stack.attention), word_of(kSelective, stack.selective),
          word_of(kContext, stack.context), word_of(kWeights, stack.weights), word_of(kInputs, stack.inputs)};
}

Expected<SoftwareStack> stack_from_name(std::string_view name) {
  const auto presets = stack_presets();
  const auto found = std::ranges::find_if(presets, [&](const auto& s) { return s.name == name; });
  if (found != presets.end()) return *found;
  return tl::unexpected(unknown_name("unknown stack", name, names_in(presets), "a file, or one of "));
}

Expected<SoftwareStack> stack_from_json(std::string_view text, const std::string& file) {
  PPSIM_ASSIGN_OR_RETURN(const auto parsed, JsonFile::parse(text, file));
  PPSIM_RETURN_IF_ERROR(parsed.validate("stack"));
  const json& root = parsed.root();
  auto base = stack_from_name(root.at("base").get<std::string>());
  if (!base)
    return parsed.error_at({"base"}, "an unknown stack", base.error().place.found,
                           base.error().place.expected);
  SoftwareStack stack = *std::move(base);
  stack.name = root.value("name", stack.name + ", changed,");
  stack.gradient_bytes = root.value("gradient_bytes", stack.gradient_bytes);
  stack.transfer_channels = root.value("transfer_channels", stack.transfer_channels);
  stack.moment_bytes = root.value("moment_bytes", stack.moment_bytes);
  read_choices(root, stack);
  read_switches(root, stack);
  const bool is_older =
      stack.attention == AttentionKernel::flash_1 || stack.attention == AttentionKernel::flash_2;
  if (stack.quantised_attention && is_older)
    return parsed.error_at({"attention"}, "older flash attention does not multiply in FP8",
                           std::string(words_of(stack).attention) + " with quantised_attention",
                           "flash, or quantised_attention false");
  return stack;
}

}  // namespace ppsim::workload
