#include "help.hpp"

#include <algorithm>
#include <sstream>

namespace ppsim::cli {
namespace {

constexpr std::size_t kColumn = 28;  // where what an option does begins
constexpr std::size_t kMaxFirst = 10;

bool asks_for_help(const OptionText& option) {
  return std::ranges::any_of(
      option.names, [](const std::string& name) { return name == "--help" || name == "--help-all"; });
}

/// "  --ranks INT               pipeline ranks", the label on a line of its own where it is long.
std::string entry(const std::string& label, const std::string& help, std::size_t width) {
  std::string line = "  " + label;
  if (line.size() + 2 > kColumn) {
    line += "\n" + std::string(kColumn, ' ');
  } else {
    line.resize(kColumn, ' ');
  }
  const std::string text = wrapped(std::string(kColumn, ' ') + help, width, kColumn);
  return line + text.substr(std::min(kColumn, text.size())) + '\n';
}

std::vector<std::string> groups_of(const std::vector<OptionText>& options) {
  std::vector<std::string> groups;
  for (const OptionText& option : options) {
    if (!option.positional && std::ranges::find(groups, option.group) == groups.end())
      groups.push_back(option.group);
  }
  return groups;
}

std::string option_lines(const std::vector<OptionText>& options, std::size_t width) {
  std::string text;
  for (const OptionText& option : options) {
    if (option.positional) text += entry(option_label(option), option_help(option), width);
  }
  if (!text.empty()) text += '\n';
  for (const std::string& group : groups_of(options)) {
    text += group + ":\n";
    for (const OptionText& option : options) {
      if (!option.positional && option.group == group)
        text += entry(option_label(option), option_help(option), width);
    }
    text += '\n';
  }
  return text;
}

std::string usage(const CommandText& command) {
  std::string text = "Usage: ppsim " + command.name;
  for (const OptionText& option : command.options) {
    if (!option.positional) continue;
    const std::string name = option.names.front() + (option.several ? "..." : "");
    text += " " + (option.required ? name : "[" + name + "]");
  }
  return text + " [OPTIONS]";
}

std::string examples_text(const HelpTopic& topic, std::size_t width) {
  std::string text = topic.examples.empty() ? "" : "Examples:\n";
  for (const std::string_view example : topic.examples) {
    std::istringstream lines(wrapped("  ppsim " + std::string(example), width - 2, 6));
    std::string line, before;
    while (std::getline(lines, line)) {
      text += before + line;
      before = " \\\n";
    }
    text += '\n';
  }
  return text.empty() ? text : text + '\n';
}

std::string group_of(const CommandText& command) {
  const HelpTopic* topic = help_topic(command.name);
  return topic == nullptr ? "More" : std::string(topic->group);
}

}  // namespace

std::string wrapped(const std::string& text, std::size_t width, std::size_t indent) {
  std::string result;
  std::size_t column = 0;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = text.find_first_not_of(' ', at);
    end = end == std::string::npos ? text.size() : std::min(text.find(' ', end), text.size());
    std::string word = text.substr(at, end - at);
    if (column > 0 && column + word.size() > width) {
      result += '\n' + std::string(indent, ' ');
      column = indent;
      word.erase(0, word.find_first_not_of(' '));
    }
    // A list that is longer than a line, such as a=1,b=2.
    while (column + word.size() > width) {
      const std::size_t cut = word.find_last_of(",|[", width - std::min(width, column + 1));
      if (cut == std::string::npos || cut == 0) break;
      result += word.substr(0, cut + 1) + '\n' + std::string(indent, ' ');
      column = indent;
      word.erase(0, cut + 1);
    }
    result += word;
    column += word.size();
    at = end;
  }
  return result;
}

std::string option_label(const OptionText& option) {
  std::string label;
  for (const std::string& name : option.names) label += (label.empty() ? "" : ",") + name;
  if (option.positional) return label + (option.several ? "..." : "");
  if (!option.value.empty()) label += " " + option.value;
  return label + (option.several ? " ..." : "");
}

std::string option_help(const OptionText& option) {
  std::string text = option.help;
  if (!option.otherwise.empty() && !option.value.empty()) text += " (default " + option.otherwise + ")";
  if (!option.needs.empty()) text += " [with " + option.needs + "]";
  return text;
}

std::vector<OptionText> first_options(const CommandText& command) {
  const HelpTopic* topic = help_topic(command.name);
  const bool has_names = topic != nullptr && !topic->first.empty();
  std::size_t count = 0;
  const auto comes_first = [&](const OptionText& option) {
    if (has_names) return std::ranges::find(topic->first, option.names.back()) != topic->first.end();
    return !asks_for_help(option) && count++ < kMaxFirst;
  };
  std::vector<OptionText> chosen;
  for (const OptionText& option : command.options) {
    if (option.positional || comes_first(option)) chosen.push_back(option);
  }
  return chosen;
}

std::string command_help(const CommandText& command, const HelpStyle& style) {
  std::vector<OptionText> shown = style.all ? command.options : first_options(command);
  std::erase_if(shown, asks_for_help);
  std::string text = wrapped("ppsim " + command.name + ": " + command.summary, style.width, 2) + "\n\n" +
                     usage(command) + "\n\n" + option_lines(shown, style.width);
  if (const HelpTopic* topic = help_topic(command.name)) text += examples_text(*topic, style.width);
  const auto is_option = [](const OptionText& option) {
    return !option.positional && !asks_for_help(option);
  };
  const auto some = std::ranges::count_if(shown, is_option);
  const auto all = std::ranges::count_if(command.options, is_option);
  if (some < all) {
    text += wrapped("These are " + std::to_string(some) + " of " + std::to_string(all) + ": ppsim " +
                        command.name + " --help-all lists all.",
                    style.width, 2) +
            '\n';
  }
  return text;
}

std::string program_help(const CommandText& program, const HelpStyle& style) {
  std::string text =
      wrapped(program.summary, style.width, 2) + "\n\nUsage: ppsim COMMAND INPUT [OPTIONS]\n\n";
  std::vector<std::string> groups;
  for (const CommandText& command : program.commands) {
    if (std::ranges::find(groups, group_of(command)) == groups.end()) groups.push_back(group_of(command));
  }
  std::stable_partition(groups.begin(), groups.end(),
                        [](const std::string& group) { return group != "This program"; });
  for (const std::string& group : groups) {
    text += group + ":\n";
    for (const CommandText& command : program.commands) {
      if (group_of(command) == group) text += entry(command.name, command.summary, style.width);
    }
    text += '\n';
  }
  text += option_lines(program.options, style.width) +
          "Examples:\n  ppsim show 1f1b --ranks 4 --microbatches 8\n"
          "  ppsim compare gpipe 1f1b zb-h1 --ranks 4 --microbatches 8 --unit F=1,B=2\n"
          "  ppsim verify 1f1b --ranks 4 --microbatches 8\n\n" +
          wrapped("ppsim COMMAND --help has the options that matter first, --help-all the rest.", style.width,
                  0) +
          "\n\n" +
          wrapped(
              "Exit codes: 0 done; 1 run-time failure; 2 bad command line or file; 3 does not fit; "
              "4 refuted; 5 unknown; 6 worse than a baseline; 130 interrupted.",
              style.width, 2) +
          '\n';
  if (!style.all) return text;
  for (const CommandText& command : program.commands) text += "\n\n" + command_help(command, style);
  return text;
}

}  // namespace ppsim::cli
