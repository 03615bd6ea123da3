#include <algorithm>
#include <cstring>
#include <exception>
#include <iostream>
#include <iterator>
#include <new>
#include <span>
#include <string_view>
#include <system_error>

#include "command.hpp"
#include "command_line/command_line.hpp"
#include "commands/effects/effects.hpp"
#include "commands/study.hpp"
#include "output/terminal.hpp"
#include "plugins/plugins.hpp"
#include "ppsim/core/ir/overflow.hpp"
#include "processes/interruption.hpp"
#include "program.hpp"

namespace {

bool asks_for_json(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) return true;
  }
  return false;
}

/// Data that did not reach its reader is an error like any other, unless that was said already.
int flushed(int exit, const ppsim::cli::Output& output) {
  if (exit == ppsim::cli::kFailed && !std::cout) return exit;
  if (std::cout << std::flush) return exit;
  const ppsim::Error error{ppsim::ErrorCode::io, "cannot write all of the result", {.file = "-"}};
  return ppsim::cli::report(error, {.json = false, .no_color = output.no_color});
}

struct CommandEntry {
  std::string_view name;
  void (*add)(ppsim::cli::Command&);
};

/// In the order of --help, but for help, completion and man, which speak of all others.
constexpr CommandEntry kCommands[] = {
    {"list", ppsim::cli::add_list},
    {"generate", ppsim::cli::add_generate},
    {"convert", ppsim::cli::add_convert},
    {"export", ppsim::cli::add_export},
    {"lower", ppsim::cli::add_lower},
    {"show", ppsim::cli::add_show},
    {"simulate", ppsim::cli::add_simulate},
    {"compare", ppsim::cli::add_compare},
    {"sensitivity", ppsim::cli::add_sensitivity},
    {"jitter", ppsim::cli::add_jitter},
    {"contention", ppsim::cli::add_contention},
    {"checkpoint", ppsim::cli::add_checkpoint},
    {"replay", ppsim::cli::add_replay},
    {"calibrate", ppsim::cli::add_calibrate},
    {"chakra", ppsim::cli::add_chakra},
    {"verify", ppsim::cli::add_verify},
    {"check-certificate", ppsim::cli::add_check_certificate},
    {"synthesize", ppsim::cli::add_synthesize},
    {"run", ppsim::cli::add_run},
    {"profile", ppsim::cli::add_profile},
    {"predict", ppsim::cli::add_predict},
    {"validate", ppsim::cli::add_validate},
    {"plan", ppsim::cli::add_plan},
    {"study", ppsim::cli::add_study},
    {"doctor", ppsim::cli::add_doctor},
    {"schema", ppsim::cli::add_schema},
};

/// Whether the line begins with the name of a command, and names no file with options of all.
bool names_command_first(std::span<char*> words) {
  const auto is_config = [](std::string_view word) { return word.starts_with("--config"); };
  if (words.empty() || std::ranges::any_of(words, is_config)) return false;
  return std::ranges::find(kCommands, std::string_view(words[0]), &CommandEntry::name) != std::end(kCommands);
}

/// The options of all commands take longer to add than a small schedule to simulate: a line that begins with
/// the name of a command gets those that it names.
void add_commands(ppsim::cli::Command& program, std::span<char*> words) {
  const bool some = names_command_first(words);
  const auto is_named = [&](std::string_view name) {
    return std::ranges::find(words, name, [](const char* word) { return std::string_view(word); }) !=
           words.end();
  };
  for (const CommandEntry& command : kCommands) {
    if (!some || is_named(command.name)) command.add(program);
  }
  if (!some) ppsim::cli::add_help(program);
}

int run(int argc, char** argv) {
  using namespace ppsim::cli;
  CommandLine program(
      {.name = "ppsim",
       .summary =
           "Pipeline-parallel schedules: what they cost, what memory they need, and that they cannot hang."});
  Output output{.arguments = {argv + 1, argv + argc}};
  program.add_flag("--json", output.json, "print one JSON object, units in the keys");
  program.add_flag("--no-color", output.no_color, "no colours, as with NO_COLOR or TERM=dumb");
  add_commands(program, {argv + 1, argv + argc});
  std::vector<std::string> plugins;
  program
      .add_option("--plugin", plugins,
                  "LIBRARY.so or FILE.py with schedules and cost models of your own; may be repeated")
      .one_value_each();
  output.json = asks_for_json(argc, argv);  // so that a bad command line is reported as asked
  const auto action = parse_command_line(program, argc, argv);
  if (!action) return report(action.error(), output);
  for (const std::string& plugin : plugins) {
    if (const auto loaded = load_plugin(plugin); !loaded) return report(loaded.error(), output);
  }
  Terminal terminal(!output.json);
  output.terminal = &terminal;
  const auto code = (*action)(output);
  return flushed(code ? *code : report(code.error(), output), output);
}

}  // namespace

int ppsim::cli::run_program(int argc, char** argv) {
  const ppsim::cli::Output output{.json = asks_for_json(argc, argv)};
  ppsim::cli::leave_on_interrupt(output.json);
  ppsim::cli::leave_when_out_of_memory(output);
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc&) {
    return ppsim::cli::report({ppsim::ErrorCode::io, "out of memory"}, output);
  } catch (const std::system_error& refused) {
    return ppsim::cli::report(
        {ppsim::ErrorCode::io, std::string("the system refuses a thread or memory: ") + refused.what()},
        output);
  } catch (const ppsim::Overflow& sum) {
    return ppsim::cli::report(
        {ppsim::ErrorCode::bad_argument,
         "the costs or sizes add up to more than fits in 64 bits",
         {.found = sum.what(), .expected = "at most 9223372036854775807 ns (292 years) or bytes in all"}},
        output);
  } catch (const std::exception& bug) {
    return ppsim::cli::report(
        {ppsim::ErrorCode::io, std::string("internal error, please report: ") + bug.what()}, output);
  }
}
