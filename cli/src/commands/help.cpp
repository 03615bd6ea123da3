#include <iostream>

#include "command.hpp"
#include "command_line/help.hpp"
#include "command_line/validators.hpp"
#include "output/completion.hpp"
#include "output/terminal.hpp"
#include "ppsim/core/text/nearest.hpp"

namespace ppsim::cli {
namespace {

struct HelpOptions {
  std::string command, shell;
  bool all = false;
};

/// Text goes out as it is; with --json it is the text of one object.
int print(const std::string& text, const Output& output) {
  if (output.json) {
    output.print({{"text", text}});
  } else {
    std::cout << text;
  }
  return kDone;
}

Expected<int> help(const HelpOptions& options, const CommandText& program, const Output& output) {
  const HelpStyle style{help_width(), options.all};
  if (options.command.empty()) return print(program_help(program, style), output);
  for (const CommandText& command : program.commands) {
    if (command.name == options.command) return print(command_help(command, style), output);
  }
  return tl::unexpected(unknown_name("unknown subcommand", options.command, names_in(program.commands)));
}

int completion(const HelpOptions& options, const CommandText& program, const Output& output) {
  if (options.shell == "bash") return print(bash_completion(program), output);
  if (options.shell == "zsh") return print(zsh_completion(program), output);
  return print(fish_completion(program), output);
}

}  // namespace

void add_help(Command& program) {
  auto options = std::make_shared<HelpOptions>();
  const Command whole = program;
  Command command = program.add_subcommand("help", "what a command does, with its options and examples");
  command.add_option("COMMAND", options->command, "simulate, verify, ...; without one the list of all");
  command.add_flag("--all", options->all, "every option");
  command.runs([options, whole](const Output& output) { return help(*options, whole.text(), output); });

  Command complete = program.add_subcommand("completion", "a script that completes command lines in a shell");
  complete.add_option("SHELL", options->shell, "bash, zsh or fish")
      .required()
      .check(one_of({"bash", "zsh", "fish"}));
  complete.runs(
      [options, whole](const Output& output) { return completion(*options, whole.text(), output); });

  Command man = program.add_subcommand("man", "the manual page, for man -l");
  man.runs([whole](const Output& output) { return print(man_page(whole.text(), PPSIM_VERSION), output); });
}

}  // namespace ppsim::cli
