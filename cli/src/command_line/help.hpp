#pragma once

#include <span>
#include <string_view>

#include "options.hpp"

namespace ppsim::cli {

/// The head of a command's help.
struct HelpTopic {
  std::string_view command;
  std::string_view group;                  ///< of commands
  std::vector<std::string_view> first;     ///< the options that matter first; none: all of them
  std::vector<std::string_view> examples;  ///< each without "ppsim"
};
[[nodiscard]] std::span<const HelpTopic> help_topics();
/// Null for a command that has none; then its first ten options are those that matter.
[[nodiscard]] const HelpTopic* help_topic(std::string_view command);

/// The options of a command that --help lists.
[[nodiscard]] std::vector<OptionText> first_options(const CommandText& command);

struct HelpStyle {
  std::size_t width = 80;
  bool all = false;  ///< every option
};
/// The text of `ppsim --help` and of `ppsim COMMAND --help`.
[[nodiscard]] std::string program_help(const CommandText& program, const HelpStyle& style);
[[nodiscard]] std::string command_help(const CommandText& command, const HelpStyle& style);

/// "-o, --output FILE".
[[nodiscard]] std::string option_label(const OptionText& option);
/// Its help, default and what it needs.
[[nodiscard]] std::string option_help(const OptionText& option);

/// A text in lines of at most `width` characters, broken between words; all but the first are indented.
[[nodiscard]] std::string wrapped(const std::string& text, std::size_t width, std::size_t indent);

}  // namespace ppsim::cli
