#include "ppsim/workload/stack.hpp"

#include <algorithm>
#include <vector>

#include "io/json/file.hpp"
#include "ppsim/core/ir/nearest.hpp"

namespace ppsim::workload {
namespace {

using nlohmann::json;

void read_choices(const json& root, SoftwareStack& stack) {
  if (root.contains("attention"))
    stack.attention = root["attention"] == "flash" ? AttentionKernel::flash : AttentionKernel::unfused;
  if (root.contains("selective")) {
    stack.selective = root["selective"] == "elementwise" ? SelectiveRecompute::elementwise
                                                         : SelectiveRecompute::attention_core;
  }
  if (root.contains("context"))
    stack.context = root["context"] == "ring" ? ContextExchange::ring : ContextExchange::all_to_all;
}

void read_switches(const json& root, SoftwareStack& stack) {
  for (const auto& [key, member] : {std::pair{"sequence_parallel", &SoftwareStack::sequence_parallel},
                                    {"overlap_tensor", &SoftwareStack::overlap_tensor},
                                    {"overlap_data", &SoftwareStack::overlap_data},
                                    {"overlap_pipeline", &SoftwareStack::overlap_pipeline},
                                    {"sharded_optimizer", &SoftwareStack::sharded_optimizer},
                                    {"fused_weight_gradient", &SoftwareStack::fused_weight_gradient},
                                    {"fused_cross_entropy", &SoftwareStack::fused_cross_entropy},
                                    {"graphs", &SoftwareStack::graphs},
                                    {"graphed_experts", &SoftwareStack::graphed_experts},
                                    {"split_experts", &SoftwareStack::split_experts}}) {
    stack.*member = root.value(key, stack.*member);
  }
}

}  // namespace

Expected<SoftwareStack> stack_from_name(std::string_view name) {
  const auto presets = stack_presets();
  const auto found =
      std::find_if(presets.begin(), presets.end(), [&](const auto& s) { return s.name == name; });
  if (found != presets.end()) return *found;
  std::vector<std::string_view> known;
  for (const SoftwareStack& stack : presets) known.push_back(stack.name);
  return make_error(ErrorCode::bad_argument, "unknown stack" + suggestion(name, known),
                    {.found = std::string(name), .expected = "a file, or one of " + joined(known)});
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
  stack.moment_bytes = root.value("moment_bytes", stack.moment_bytes);
  read_choices(root, stack);
  read_switches(root, stack);
  return stack;
}

}  // namespace ppsim::workload
