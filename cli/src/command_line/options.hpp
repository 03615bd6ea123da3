#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ppsim/core/ir/error.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace ppsim::cli {

struct Output;

/// The work of a command; returns the exit code, or the error to report.
using CommandRun = std::function<Expected<int>(const Output&)>;

/// A requirement on an option's value.
struct Validator {
  std::function<std::string(const std::string&)> refusal;  ///< the fault of a text; empty: none
  std::string value = {};                                  ///< as --help calls it
};

/// The types of variables that options set.
template <class T>
concept OptionValue = std::same_as<T, std::string> || std::same_as<T, int> || std::same_as<T, std::int64_t> ||
    std::same_as<T, std::uint64_t> || std::same_as<T, double> || std::same_as<T, std::optional<int>> ||
    std::same_as<T, std::optional<double>> || std::same_as<T, std::vector<std::string>>;

/// An option, a flag or an argument of a command. A copy is the same one.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option& check(const Validator& validator);
  Option& required();
  /// --help shows the present value of the variable.
  Option& show_default();
  /// Each mention takes one value, and arguments may follow it.
  Option& one_value_each();
  /// The heading in --help.
  Option& group(const std::string& heading);
  Option& needs(const Option& other);
  Option& excludes(const Option& other);

 private:
  CLI::Option* option_;
};

/// An option, a flag or an argument as --help, the completion and the man page describe it.
struct OptionText {
  std::vector<std::string> names = {};  ///< "-o", "--output"; of an argument its own, "INPUT"
  std::string help = {}, group = {};
  std::string value = {};                 ///< the type of its value, "INT" or "{text,svg}"; empty: a flag
  std::vector<std::string> choices = {};  ///< all values that it may have, where these are few
  std::string otherwise = {};             ///< its value where it is not given
  std::string needs = {};                 ///< an option without which it is refused
  bool positional = false, required = false, several = false;
};

/// The same of a command and its subcommands.
struct CommandText {
  std::string name, summary;
  std::vector<OptionText> options;
  std::vector<CommandText> commands;
};

/// A command of the program:
///
///     Command command = program.add_subcommand("show", "draw the timeline");
///     command.add_option("INPUT", options->input, "FILE or NAME").required();
///     command.add_option("--width", options->width, "characters").check(whole(20, 20000));
///     command.runs(run, options);
///
/// Variables must outlive the run. A copy is the same command.
class Command {
 public:
  Command(CLI::App* app, CommandRun* chosen) : app_(app), chosen_(chosen) {}

  [[nodiscard]] Command add_subcommand(const std::string& name, const std::string& help);
  /// "--name", "-n,--name", or "NAME" for an argument.
  template <OptionValue T>
  Option add_option(const std::string& name, T& variable, const std::string& help);
  Option add_flag(const std::string& name, bool& variable, const std::string& help);
  void runs(const CommandRun& run);
  /// The same with its options, which live as long as it does.
  template <class Options>
  void runs(Expected<int> (*run)(const Options&, const Output&), const std::shared_ptr<Options>& options) {
    runs([run, options](const Output& output) { return run(*options, output); });
  }

  /// Requires: it was added.
  [[nodiscard]] Option option(const std::string& name) const;
  [[nodiscard]] bool has_been_given(const std::string& name) const;
  [[nodiscard]] CommandText text() const;

 protected:
  CLI::App* app_;
  CommandRun* chosen_;
};

/// The values that a command line gives to one option.
struct ParsedOption {
  std::string name;
  std::vector<std::string> long_names;  ///< with their dashes
  std::string help;
  std::string type;  ///< as --help shows it
  bool takes_value = false;
  std::vector<std::string> values;
};

/// A command line, good or bad.
struct ParsedLine {
  std::optional<std::string> error;
  bool helped = false;                   ///< --help or --help-all was asked for
  bool all_help = false;                 ///< the latter
  bool versioned = false;                ///< --version was asked for
  std::vector<std::string> subcommands;  ///< that there are
  std::string subcommand;                ///< the chosen one, if any
  std::vector<ParsedOption> options;     ///< of the program and of its chosen subcommand
  std::vector<std::string> extras;       ///< words that belong to none
  CommandRun run;                        ///< of the chosen subcommand
};

/// The program, of which one subcommand must be chosen.
class CommandLine : public Command {
 public:
  struct Text {
    std::string name, summary;
  };
  explicit CommandLine(const Text& text);
  [[nodiscard]] ParsedLine parse(int argc, char** argv);

 private:
  struct State;
  explicit CommandLine(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

/// Reads a number as options do: 0x10 is 16. T: int or double.
template <class T>
[[nodiscard]] bool read_number(const std::string& text, T& number);

}  // namespace ppsim::cli
