#include "command_line.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "ppsim/core/nearest.hpp"
#include "validators.hpp"

namespace ppsim::cli {
namespace {

namespace fs = std::filesystem;

using Words = std::vector<std::string>;

/// The options of the program and of the subcommand that was chosen, if any.
std::vector<const CLI::Option*> options_of(const CLI::App& app) {
  std::vector<const CLI::Option*> options = app.get_options();
  for (const CLI::App* command : app.get_subcommands()) {
    const auto own = std::as_const(*command).get_options();
    options.insert(options.end(), own.begin(), own.end());
  }
  return options;
}

/// "--ranks" of "--ranks=4".
std::string option_word(const std::string& word) { return word.substr(0, word.find('=')); }

const CLI::Option* find_option(const CLI::App& app, const std::string& name) {
  for (const CLI::Option* option : options_of(app)) {
    if (name.starts_with("--") && option->check_lname(name.substr(2))) return option;
  }
  return nullptr;
}

Error no_value(const CLI::Option& option, const std::string& found) {
  return {ErrorCode::bad_argument,
          option.get_name() + " has no value",
          {.found = found, .expected = option.get_description()}};
}

/// `--certificate "$FILE"` where the variable is empty; without quotes, the next option is no value either.
std::optional<Error> missing_value(const CLI::App& app, const Words& words) {
  for (const CLI::Option* option : options_of(app)) {
    for (const std::string& text : option->results()) {
      if (text.empty()) return no_value(*option, "\"\"");
      if (find_option(app, option_word(text)) != nullptr) return no_value(*option, text);
    }
  }
  for (const std::string& word : words) {
    if (word == "--") break;
    const CLI::Option* option = find_option(app, option_word(word));
    const bool takes_value = option != nullptr && option->get_items_expected_max() > 0;
    if (takes_value && word.find('=') + 1 == word.size()) return no_value(*option, word);
  }
  return std::nullopt;
}

bool is_same_file(const std::string& output, const std::string& other) {
  std::error_code ignored;
  return fs::is_regular_file(output, ignored) && fs::equivalent(output, other, ignored);
}

/// Where a file is or would be made, at the end of links that may lead to nothing yet.
fs::path destination_of(const std::string& file) {
  constexpr int kMostLinks = 40;  // as the system follows
  std::error_code ignored;
  fs::path path = fs::absolute(file, ignored);
  for (int links = 0; links < kMostLinks && fs::is_symlink(path, ignored); ++links)
    path = path.parent_path() / fs::read_symlink(path, ignored);
  return fs::weakly_canonical(path, ignored);
}

/// Whether one new file would be written twice.
bool is_same_new_file(const std::string& output, const std::string& other) {
  std::error_code ignored;
  return !fs::exists(output, ignored) && destination_of(output) == destination_of(other);
}

/// An output that would take the place of what is read, which is every file that another option names, or of
/// another output.
std::optional<Error> overwritten_input(const CLI::App& app) {
  const auto options = options_of(app);
  for (const CLI::Option* output : options) {
    if (output->results().empty() || !is_output_file(*output)) continue;
    const std::string& file = output->results().front();
    for (const CLI::Option* other : options) {
      const bool written = is_output_file(*other);
      const auto is_it = [&](const std::string& text) {
        if (other == output) return false;
        return is_same_file(file, text) || (written && is_same_new_file(file, text));
      };
      if (std::ranges::none_of(other->results(), is_it)) continue;
      return Error{ErrorCode::bad_argument,
                   output->get_name() + " would overwrite what " + other->get_name() + " names",
                   {.found = file, .expected = "another file"}};
    }
  }
  return std::nullopt;
}

/// Standard input has one reader.
std::optional<Error> shared_input(const CLI::App& app) {
  std::string reader;
  for (const CLI::Option* option : options_of(app)) {
    if (is_output_file(*option)) continue;
    for (const std::string& text : option->results()) {
      if (text != "-") continue;
      if (!reader.empty()) {
        return Error{ErrorCode::bad_argument,
                     "standard input can be read once",
                     {.found = reader + " - and " + option->get_name() + " -", .expected = "a file"}};
      }
      reader = option->get_name();
    }
  }
  return std::nullopt;
}

/// A word where a subcommand belongs, such as `simulat`.
Error no_subcommand(const CLI::App& app, const Words& words) {
  Words names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  const std::vector<std::string_view> known(names.begin(), names.end());
  const auto word = std::ranges::find_if(words, [](const std::string& text) { return text[0] != '-'; });
  if (word == words.end()) {
    return {ErrorCode::bad_argument,
            "no subcommand; see --help",
            {.found = "", .expected = "one of " + joined(known)}};
  }
  return {ErrorCode::bad_argument,
          "unknown subcommand" + suggestion(*word, known),
          {.found = *word, .expected = "one of " + joined(known)}};
}

/// `--rank 4`, of which the value may have been taken for an argument.
Error unknown_option(const CLI::App& app, const std::string& word) {
  Words names;
  for (const CLI::Option* option : options_of(app)) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  const std::string name = option_word(word);
  return {
      ErrorCode::bad_argument,
      "unknown option " + name + suggestion(name, known),
      {.found = name, .expected = "an option of ppsim " + app.get_subcommands()[0]->get_name() + " --help"}};
}

/// What a validator of ours says, "--jitter: found nan, expected a number from 0 to 10".
Error bad_value(const std::string& text) {
  const std::size_t found = text.find(": found ");
  const std::size_t expected = text.rfind(", expected ");
  if (found == std::string::npos || expected == std::string::npos)
    return {ErrorCode::bad_argument, text + "; see --help"};
  const std::size_t begin = found + std::string_view(": found ").size();
  return {ErrorCode::bad_argument,
          "bad value for " + text.substr(0, found),
          {.found = text.substr(begin, expected - begin),
           .expected = text.substr(expected + std::string_view(", expected ").size())}};
}

Error error_of(const CLI::ParseError& error, const CLI::App& app, const Words& words) {
  if (app.get_subcommands().empty()) return no_subcommand(app, words);
  const Words extras = app.remaining(true);
  const auto option = std::ranges::find_if(extras, [](const auto& word) { return word.starts_with('-'); });
  if (option != extras.end()) return unknown_option(app, *option);
  if (auto missing = missing_value(app, words)) return *std::move(missing);
  if (extras.empty()) return bad_value(error.what());
  return {ErrorCode::bad_argument, "one argument too many; see --help", {.found = extras.front()}};
}

}  // namespace

Expected<bool> parse_command_line(CLI::App& app, int argc, char** argv) {
  const Words words(argv + 1, argv + argc);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != static_cast<int>(CLI::ExitCodes::Success))
      return tl::unexpected(error_of(error, app, words));
    app.exit(error);
    return false;
  }
  if (auto missing = missing_value(app, words)) return tl::unexpected(*std::move(missing));
  if (auto shared = shared_input(app)) return tl::unexpected(*std::move(shared));
  if (auto overwritten = overwritten_input(app)) return tl::unexpected(*std::move(overwritten));
  return true;
}

}  // namespace ppsim::cli
