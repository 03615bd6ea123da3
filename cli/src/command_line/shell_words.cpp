#include "shell_words.hpp"

#include <string_view>

namespace ppsim::cli {

std::string shell_word(const std::string& text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+.,:/@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

std::string command_words(const std::vector<std::string>& arguments) {
  std::string words = "ppsim";
  for (const std::string& argument : arguments) words += " " + shell_word(argument);
  return words;
}

std::string cost_words(const CostOptions& options) {
  const CostOptions usual;
  std::string words;
  const auto add_text = [&](const char* name, const std::string& value, const std::string& otherwise) {
    if (value != otherwise) words += std::string(" ") + name + " " + shell_word(value);
  };
  add_text("--unit", options.unit, usual.unit);
  add_text("--token-costs", options.tokens, usual.tokens);
  add_text("--costs", options.costs, usual.costs);
  add_text("--model", options.model, usual.model);
  add_text("--cluster", options.cluster, usual.cluster);
  const auto add_number = [&](const char* name, std::int64_t value, std::int64_t otherwise) {
    add_text(name, std::to_string(value), std::to_string(otherwise));
  };
  add_number("--nodes", options.nodes, usual.nodes);
  add_number("--tp", options.parallelism.tensor, usual.parallelism.tensor);
  add_number("--pp", options.parallelism.pipeline, usual.parallelism.pipeline);
  add_number("--dp", options.parallelism.data, usual.parallelism.data);
  add_number("--cp", options.parallelism.context, usual.parallelism.context);
  add_number("--ep", options.parallelism.expert, usual.parallelism.expert);
  add_number("--microbatch-size", options.parallelism.microbatch_size, usual.parallelism.microbatch_size);
  add_number("--global-batch-size", options.parallelism.global_batch_size,
             usual.parallelism.global_batch_size);
  add_number("--sequence-length", options.parallelism.sequence, usual.parallelism.sequence);
  add_text("--dtype", options.dtype, usual.dtype);
  add_text("--stack", options.stack, usual.stack);
  add_text("--calibration", options.calibration, usual.calibration);
  if (options.parallelism.sharded_parameters) words += " --fsdp";
  if (options.pipeline_only) words += " --pipeline-only";
  add_text("--rank-order", options.rank_order, usual.rank_order);
  add_text("--layout", options.layout, usual.layout);
  add_text("--recompute", options.recompute, usual.recompute);
  return words;
}

}  // namespace ppsim::cli
