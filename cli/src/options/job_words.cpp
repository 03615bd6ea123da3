#include "job_words.hpp"

#include <algorithm>
#include <utility>

#include "ppsim/workload/job.hpp"

namespace ppsim::cli {
namespace {

using Words = std::vector<std::string>;

constexpr std::string_view kOption = "--job";

bool has_job_option(const CommandText& program, const Words& words) {
  const auto is_named = [&](const CommandText& command) {
    return std::ranges::find(words, command.name) != words.end();
  };
  const auto command = std::ranges::find_if(program.commands, is_named);
  if (command == program.commands.end()) return false;
  return std::ranges::any_of(command->options, [](const OptionText& option) {
    return std::ranges::find(option.names, kOption) != option.names.end();
  });
}

bool says(const Words& words, const std::string& option) {
  return std::ranges::any_of(
      words, [&](const std::string& word) { return word == option || word.starts_with(option + "="); });
}

std::vector<std::pair<std::string, std::string>> options_of(const TrainingJob& job) {
  const Parallelism& parallelism = job.parallelism;
  return {{"--model", job.model},
          {"--cluster", job.cluster},
          {"--nodes", std::to_string(job.nodes)},
          {"--tp", std::to_string(parallelism.tensor)},
          {"--pp", std::to_string(parallelism.pipeline)},
          {"--dp", std::to_string(parallelism.data)},
          {"--microbatch-size", std::to_string(parallelism.microbatch_size)},
          {"--global-batch-size", std::to_string(parallelism.global_batch_size)},
          {"--sequence-length", std::to_string(parallelism.sequence)}};
}

/// Takes `--job NAME` or `--job=NAME` out; nothing where it has no value, which the parser says.
std::string taken_job(Words& words) {
  for (auto word = words.begin(); word != words.end() && *word != "--"; ++word) {
    std::string name;
    if (word->starts_with(std::string(kOption) + "=")) {
      name = word->substr(kOption.size() + 1);
      if (!name.empty()) words.erase(word);
    } else if (*word == kOption && word + 1 != words.end() && !(word + 1)->starts_with("-")) {
      name = *(word + 1);
      if (!name.empty()) words.erase(word, word + 2);
    } else {
      continue;
    }
    return name;
  }
  return "";
}

}  // namespace

Expected<Words> with_job_words(const Command& program, Words words) {
  if (!says(words, std::string(kOption)) || !has_job_option(program.text(), words)) return words;
  const std::string name = taken_job(words);
  if (name.empty()) return words;
  PPSIM_ASSIGN_OR_RETURN(const auto job, job_from_name(name));
  Words added;
  for (const auto& [option, value] : options_of(job)) {
    if (says(words, option)) continue;
    added.push_back(option);
    added.push_back(value);
  }
  const auto end = std::ranges::find(words, "--");
  words.insert(end, added.begin(), added.end());
  return words;
}

}  // namespace ppsim::cli
