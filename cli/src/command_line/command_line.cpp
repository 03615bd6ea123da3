#include "command_line.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <optional>

#include "command.hpp"
#include "config_file.hpp"
#include "help.hpp"
#include "options/job_words.hpp"
#include "output/terminal.hpp"
#include "ppsim/core/ir/sequences.hpp"
#include "ppsim/core/text/nearest.hpp"
#include "ppsim/gpu_backend/executor/backends.hpp"
#include "ppsim/gpu_backend/process_group/bootstrap.hpp"
#include "ppsim/planner/files.hpp"
#include "ppsim/verifier/solver/solver_version.hpp"
#include "validators.hpp"

namespace ppsim::cli {
namespace {

namespace fs = std::filesystem;

using Words = std::vector<std::string>;

/// "--ranks" of "--ranks=4".
std::string option_word(const std::string& word) { return word.substr(0, word.find('=')); }

const ParsedOption* find_option(const ParsedLine& line, const std::string& name) {
  for (const ParsedOption& option : line.options) {
    if (std::ranges::find(option.long_names, name) != option.long_names.end()) return &option;
  }
  return nullptr;
}

Error no_value(const ParsedOption& option, const std::string& found) {
  return {ErrorCode::bad_argument,
          option.name + " has no value",
          {.found = found, .expected = option.name + ": " + option.help}};
}

/// `--certificate "$FILE"` where the variable is empty; without quotes, the next option is no value either.
std::optional<Error> missing_value(const ParsedLine& line, const Words& words) {
  for (const ParsedOption& option : line.options) {
    for (const std::string& text : option.values) {
      if (text.empty()) return no_value(option, "\"\"");
      if (find_option(line, option_word(text)) != nullptr) return no_value(option, text);
    }
  }
  for (const std::string& word : words) {
    if (word == "--") break;
    const ParsedOption* option = find_option(line, option_word(word));
    const bool takes_value = option != nullptr && option->takes_value;
    if (takes_value && word.find('=') + 1 == word.size()) return no_value(*option, word);
  }
  return std::nullopt;
}

bool is_same_file(const std::string& output, const std::string& other) {
  std::error_code ignored;
  return fs::is_regular_file(output, ignored) && fs::equivalent(output, other, ignored);
}

/// Where a file is or would be made.
fs::path destination_of(const std::string& file) {
  std::error_code ignored;
  return fs::weakly_canonical(behind_links(fs::absolute(file, ignored).string()), ignored);
}

/// Whether one new file would be written twice.
bool is_same_new_file(const std::string& output, const std::string& other) {
  std::error_code ignored;
  return !fs::exists(output, ignored) && destination_of(output) == destination_of(other);
}

/// An output that would take the place of what is read, which is every file that another option names, or of
/// another output.
std::optional<Error> overwritten_input(const ParsedLine& line) {
  for (const ParsedOption& output : line.options) {
    if (output.values.empty() || !is_output_file(output)) continue;
    const std::string& file = output.values.front();
    for (const ParsedOption& other : line.options) {
      const bool written = is_output_file(other);
      const auto is_it = [&](const std::string& text) {
        if (&other == &output) return false;
        return is_same_file(file, text) || (written && is_same_new_file(file, text));
      };
      if (std::ranges::none_of(other.values, is_it)) continue;
      return Error{ErrorCode::bad_argument,
                   output.name + " would overwrite what " + other.name + " names",
                   {.found = file, .expected = "another file"}};
    }
  }
  return std::nullopt;
}

/// Standard input has one reader.
std::optional<Error> shared_input(const ParsedLine& line) {
  std::string reader;
  for (const ParsedOption& option : line.options) {
    if (is_output_file(option)) continue;
    for (const std::string& text : option.values) {
      if (text != "-") continue;
      if (!reader.empty()) {
        return Error{ErrorCode::bad_argument,
                     "standard input can be read once",
                     {.found = reader + " - and " + option.name + " -", .expected = "a file"}};
      }
      reader = option.name;
    }
  }
  return std::nullopt;
}

/// An option that simulate had for random costs.
bool moved_to_jitter(const ParsedLine& line, const std::string& option) {
  constexpr std::array kMoved = {"--runs", "--jitter", "--seed"};
  return line.subcommand == "simulate" && std::ranges::find(kMoved, option) != kMoved.end();
}

/// `--rank 4`, of which the value may have been taken for an argument.
Error unknown_option(const ParsedLine& line, const std::string& word) {
  std::vector<std::string_view> known;
  for (const ParsedOption& option : line.options) append_all(known, option.long_names);
  const std::string name = option_word(word);
  if (moved_to_jitter(line, name)) {
    return {ErrorCode::bad_argument,
            "simulate has no " + name + ", as ppsim jitter varies costs",
            {.found = name, .expected = "ppsim jitter INPUT --vary all=normal:0.05 --samples 100"}};
  }
  return {ErrorCode::bad_argument,
          "unknown option " + name + suggestion(name, known),
          {.found = name,
           .expected =
               "an option of ppsim " + line.subcommand + (line.subcommand.empty() ? "" : " ") + "--help"}};
}

/// A word where a subcommand belongs, such as `simulat`.
Error no_subcommand(const ParsedLine& line, const Words& words) {
  const std::vector<std::string_view> known(line.subcommands.begin(), line.subcommands.end());
  const auto is_option = [](const std::string& text) { return text.starts_with('-'); };
  const auto word = std::ranges::find_if_not(words, is_option);
  if (word == words.end()) {
    if (const auto option = std::ranges::find_if(line.extras, is_option); option != line.extras.end())
      return unknown_option(line, *option);
    return {ErrorCode::bad_argument,
            "no subcommand; see --help",
            {.found = "", .expected = "one of " + joined(known)}};
  }
  return unknown_name("unknown subcommand", *word, known);
}

/// "--tp" and "--model" of "--tp requires --model".
std::optional<std::pair<std::string, std::string>> around(const std::string& text, const std::string& words) {
  const std::size_t at = text.find(words);
  if (at == std::string::npos) return std::nullopt;
  return std::pair(text.substr(0, at), text.substr(at + words.size()));
}

/// The error that CLI11 reports where options are missing or exclude each other.
std::optional<Error> missing_option(const ParsedLine& line, const std::string& text) {
  const auto option_named = [&](const std::string& name) {
    return std::ranges::find(line.options, name, &ParsedOption::name);
  };
  if (const auto missing = around(text, " is required")) {
    const auto option = option_named(missing->first);
    const std::string help = option == line.options.end() ? "" : option->help;
    return Error{ErrorCode::bad_argument, text, {.found = "", .expected = missing->first + ": " + help}};
  }
  if (const auto empty = around(text, ": 1 required ")) {
    const auto option = option_named(empty->first);
    if (option != line.options.end()) return no_value(*option, "");
  }
  if (const auto often = around(text, ": At Most 1 required but received ")) {
    return Error{ErrorCode::bad_argument,
                 often->first + " is given more than once",
                 {.found = often->second + " values", .expected = "one"}};
  }
  if (const auto both = around(text, " excludes ")) {
    return Error{ErrorCode::bad_argument,
                 both->first + " and " + both->second + " do not go together",
                 {.found = "both", .expected = "one of the two"}};
  }
  if (const auto alone = around(text, " requires ")) {
    return Error{ErrorCode::bad_argument,
                 text,
                 {.found = alone->first + " alone", .expected = alone->second + " as well"}};
  }
  return std::nullopt;
}

/// "Could not convert: --chunks = x" of CLI11.
Error unconverted(const ParsedLine& line, const std::string& text) {
  constexpr std::string_view kPrefix = "Could not convert: ";
  const auto parts = around(text, " = ");
  if (!parts || !parts->first.starts_with(kPrefix))
    return {ErrorCode::bad_argument, text + "; see ppsim " + line.subcommand + " --help"};
  const std::string name = parts->first.substr(kPrefix.size());
  const auto option = std::ranges::find(line.options, name, &ParsedOption::name);
  const bool is_flag = option != line.options.end() && !option->takes_value;
  const bool is_whole = parts->second.find_first_not_of("-0123456789") == std::string::npos;
  return {ErrorCode::bad_argument,
          "bad value for " + name,
          {.found = parts->second,
           .expected = is_flag    ? "true or false"
                       : is_whole ? "a number with fewer digits"
                                  : "a number"}};
}

/// The message of our own validators, "--ranks: found 0, expected a whole number from 1 to 1024".
Error bad_value(const ParsedLine& line, const std::string& text) {
  const std::size_t found = text.find(": found ");
  const std::size_t expected = text.rfind(", expected ");
  if (found == std::string::npos || expected == std::string::npos) return unconverted(line, text);
  const std::size_t begin = found + std::string_view(": found ").size();
  return {ErrorCode::bad_argument,
          "bad value for " + text.substr(0, found),
          {.found = text.substr(begin, expected - begin),
           .expected = text.substr(expected + std::string_view(", expected ").size())}};
}

Error error_of(const ParsedLine& line, const Words& words) {
  if (auto wrong = config_error(line)) return *std::move(wrong);
  if (line.subcommand.empty()) return no_subcommand(line, words);
  const auto option =
      std::ranges::find_if(line.extras, [](const auto& word) { return word.starts_with('-'); });
  if (option != line.extras.end()) return unknown_option(line, *option);
  if (auto missing = missing_value(line, words)) return *std::move(missing);
  if (auto missing = missing_option(line, *line.error)) return *std::move(missing);
  if (line.extras.empty()) return bad_value(line, *line.error);
  return {
      ErrorCode::bad_argument,
      "one argument too many",
      {.found = line.extras.front(), .expected = "the arguments of ppsim " + line.subcommand + " --help"}};
}

int print_version(const Output& output) {
  if (output.json) {
    Json backends = Json::array();
    for (const BackendStatus& backend : backend_statuses())
      backends.push_back(
          {{"name", backend.name}, {"available", backend.available}, {"detail", backend.detail}});
    output.print({{"version", PPSIM_VERSION},
                  {"build", PPSIM_BUILD},
                  {"z3", solver_version()},
                  {"mpi", mpi_version()},
                  {"backends", std::move(backends)}});
    return kDone;
  }
  const std::string mpi = mpi_version();
  std::cout << "ppsim " << PPSIM_VERSION << "\nbuild       " << PPSIM_BUILD << "\nsolver      Z3 "
            << solver_version()
            << "\ntransports  in-process, emulated, copy; mpi: " << (mpi.empty() ? "not installed" : mpi)
            << "; nccl: opened at run time\n";
  return kDone;
}

CommandRun help_of(const CommandText& program, const ParsedLine& line) {
  const HelpStyle style{help_width(), line.all_help};
  std::string text = program_help(program, style);
  for (const CommandText& command : program.commands) {
    if (command.name == line.subcommand) text = command_help(command, style);
  }
  return [text](const Output&) {
    std::cout << text;
    return kDone;
  };
}

ParsedLine parsed(CommandLine& program, char* name, Words words) {
  std::vector<char*> arguments = {name};
  for (std::string& word : words) arguments.push_back(word.data());
  return program.parse(static_cast<int>(arguments.size()), arguments.data());
}

}  // namespace

Expected<CommandRun> parse_command_line(CommandLine& program, int argc, char** argv) {
  PPSIM_ASSIGN_OR_RETURN(const auto expanded, with_job_words(program, Words(argv + 1, argv + argc)));
  const Words& words = expanded;
  ParsedLine line = parsed(program, argv[0], words);
  if (auto repeated = repeated_section(line)) return tl::unexpected(*std::move(repeated));
  if (line.error) return tl::unexpected(error_of(line, words));
  if (line.versioned) return print_version;
  if (line.helped) return help_of(program.text(), line);
  if (auto missing = missing_value(line, words)) return tl::unexpected(*std::move(missing));
  if (auto shared = shared_input(line)) return tl::unexpected(*std::move(shared));
  if (auto overwritten = overwritten_input(line)) return tl::unexpected(*std::move(overwritten));
  return std::move(line.run);
}

}  // namespace ppsim::cli
