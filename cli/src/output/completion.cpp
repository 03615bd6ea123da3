#include "completion.hpp"

#include <algorithm>
#include <sstream>

#include "command_line/help.hpp"
#include "ppsim/core/ir/sequences.hpp"
#include "ppsim/core/text/nearest.hpp"
#include "ppsim/schedules/registry.hpp"
#include "ppsim/workload/cluster.hpp"
#include "ppsim/workload/model.hpp"

namespace ppsim::cli {
namespace {

/// The words that an option or argument accepts, besides files.
std::vector<std::string> values_of(const OptionText& option) {
  const std::string& name = option.names.back();
  if (!option.choices.empty()) return option.choices;
  std::vector<std::string> values;
  if (name == "INPUT" || name == "INPUTS" || name == "NAMES" || name == "NAME") {
    for (const ScheduleInfo& schedule : registered_schedules()) values.emplace_back(schedule.name);
  } else if (name == "--model") {
    for (const ModelDescription& model : model_presets()) values.push_back(model.name);
  } else if (name == "--cluster") {
    for (const NodeDescription& node : node_presets()) values.push_back(node.name);
  } else if (name == "--unit") {
    values = {"F=1,B=2"};
  }
  return values;
}

std::vector<std::string> names_of(const std::vector<CommandText>& commands) {
  std::vector<std::string> names;
  for (const CommandText& command : commands) names.push_back(command.name);
  return names;
}

std::vector<std::string> option_names(const CommandText& command) {
  std::vector<std::string> names;
  for (const OptionText& option : command.options) {
    if (!option.positional) append_all(names, option.names);
  }
  return names;
}

/// The completions of a command's first argument: of `help` and the like other commands or words.
std::vector<std::string> arguments_of(const CommandText& program, const CommandText& command) {
  if (command.name == "help") return names_of(program.commands);
  std::vector<std::string> values;
  for (const OptionText& option : command.options) {
    if (!option.positional) continue;
    for (std::string& value : values_of(option)) values.push_back(std::move(value));
  }
  return values;
}

/// A case of each command in a shell's language: its options, its arguments, and the values of the option
/// before.
std::string shell_cases(const CommandText& program) {
  std::ostringstream text;
  for (const CommandText& command : program.commands) {
    text << "    " << command.name << ")\n      options=\"" << joined(option_names(command), " ") << ' '
         << joined(option_names(program), " ") << "\"\n      arguments=\""
         << joined(arguments_of(program, command), " ") << "\"\n      case $before in\n";
    for (const OptionText& option : command.options) {
      if (option.positional || option.value.empty()) continue;
      text << "        " << joined(option.names, "|") << ") values=\"" << joined(values_of(option), " ")
           << "\" takes_value=1 ;;\n";
    }
    text << "      esac\n      ;;\n";
  }
  return text.str();
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

std::string quoted_fish(const std::string& text) {
  return "'" + replaced(replaced(text, "\\", "\\\\"), "'", "\\'") + "'";
}

std::string roff(const std::string& text) {
  std::string result = replaced(replaced(text, "\\", "\\e"), "-", "\\-");
  return result.starts_with('.') || result.starts_with('\'') ? "\\&" + result : result;
}

/// Those of the program's list are not told again for each command.
void write_options(std::ostringstream& page, const CommandText& command, bool of_program) {
  for (const OptionText& option : command.options) {
    if (!of_program && option.names.back().starts_with("--help")) continue;
    page << ".TP\n.B " << roff(option_label(option)) << '\n' << roff(option_help(option)) << '\n';
  }
}

}  // namespace

std::string bash_completion(const CommandText& program) {
  return R"(# Completion of ppsim for bash: ppsim completion bash
_ppsim() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command='' options='' arguments='' values='' takes_value=0
  local i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    [[ ${COMP_WORDS[i]} == -* ]] || { command=${COMP_WORDS[i]}; break; }
  done
  case $command in
    '')
      options=")" +
         joined(option_names(program), " ") + R"("
      arguments=")" +
         joined(names_of(program.commands), " ") + R"("
      ;;
)" + shell_cases(program) +
         R"(  esac
  if ((takes_value)); then
    mapfile -t COMPREPLY < <(compgen -W "$values" -- "$word"; compgen -f -- "$word")
  elif [[ $word == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
  else
    mapfile -t COMPREPLY < <(compgen -W "$arguments" -- "$word")
    [[ -z $command ]] || mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "$word")
  fi
}
complete -o filenames -F _ppsim ppsim
)";
}

std::string zsh_completion(const CommandText& program) {
  return R"(#compdef ppsim
# Completion of ppsim for zsh: ppsim completion zsh
_ppsim() {
  local before=${words[CURRENT-1]} command='' options='' arguments='' values='' takes_value=0
  local i
  for ((i = 2; i < CURRENT; ++i)); do
    [[ ${words[i]} == -* ]] || { command=${words[i]}; break; }
  done
  case $command in
    '')
      options=")" +
         joined(option_names(program), " ") + R"("
      arguments=")" +
         joined(names_of(program.commands), " ") + R"("
      ;;
)" + shell_cases(program) +
         R"(  esac
  if ((takes_value)); then
    compadd -- ${=values}
    _files
  elif [[ ${words[CURRENT]} == -* ]]; then
    compadd -- ${=options}
  else
    compadd -- ${=arguments}
    [[ -z $command ]] || _files
  fi
}
# As a file _ppsim of fpath, this is the body of the function that the first TAB calls.
if [[ ${funcstack[1]-} == _ppsim ]]; then _ppsim "$@"; else compdef _ppsim ppsim; fi
)";
}

std::string fish_completion(const CommandText& program) {
  std::ostringstream text;
  text << "# Completion of ppsim for fish: ppsim completion fish\n";
  for (const CommandText& command : program.commands) {
    text << "complete -c ppsim -n __fish_use_subcommand -f -a " << command.name << " -d "
         << quoted_fish(command.summary) << '\n';
    const std::string seen = "complete -c ppsim -n '__fish_seen_subcommand_from " + command.name + "'";
    const std::vector<std::string> arguments = arguments_of(program, command);
    if (!arguments.empty()) text << seen << " -a " << quoted_fish(joined(arguments, " ")) << '\n';
    for (const OptionText& option : command.options) {
      if (option.positional) continue;
      text << seen;
      for (const std::string& name : option.names)
        text << (name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1));
      if (!option.value.empty()) text << " -r";
      if (const auto values = values_of(option); !values.empty())
        text << " -a " << quoted_fish(joined(values, " "));
      text << " -d " << quoted_fish(option.help) << '\n';
    }
  }
  return text.str();
}

std::string man_page(const CommandText& program, const std::string& version) {
  std::ostringstream page;
  page << ".TH PPSIM 1 \"\" \"ppsim " << version << "\" \"User Commands\"\n.ad l\n.SH NAME\nppsim \\- "
       << roff("schedules of pipeline-parallel training: simulated, proved and run")
       << "\n.SH SYNOPSIS\n.B ppsim\n.I COMMAND INPUT\n[\\fIOPTIONS\\fR]\n.SH DESCRIPTION\n"
       << roff(program.summary) << "\n.SH OPTIONS OF ALL COMMANDS\n";
  write_options(page, program, true);
  page << ".SH COMMANDS\n";
  for (const CommandText& command : program.commands) {
    page << ".SS " << roff(command.name) << '\n' << roff(command.summary) << '\n';
    write_options(page, command, false);
    const HelpTopic* topic = help_topic(command.name);
    if (topic == nullptr || topic->examples.empty()) continue;
    page << ".PP\nExamples:\n.nf\n";
    for (const std::string_view example : topic->examples)
      page << "  " << roff("ppsim " + std::string(example)) << '\n';
    page << ".fi\n";
  }
  page << ".SH EXIT STATUS\n0 done; 1 run\\-time failure; 2 bad command line or file; 3 does not fit; 4 "
          "refuted; 5 "
          "unknown; 6 worse than a baseline; 130 interrupted.\n";
  return page.str();
}

}  // namespace ppsim::cli
