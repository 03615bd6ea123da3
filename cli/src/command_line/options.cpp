#include "options.hpp"

#include <CLI/CLI.hpp>
#include <sstream>
#include <utility>

namespace ppsim::cli {

Option& Option::check(const Validator& validator) {
  option_->check(validator.refusal, validator.value);
  return *this;
}

Option& Option::required() {
  option_->required();
  return *this;
}

Option& Option::show_default() {
  option_->capture_default_str();
  return *this;
}

Option& Option::one_value_each() {
  option_->allow_extra_args(false);
  return *this;
}

Option& Option::group(const std::string& heading) {
  option_->group(heading);
  return *this;
}

Option& Option::needs(const Option& other) {
  option_->needs(other.option_);
  return *this;
}

Option& Option::excludes(const Option& other) {
  option_->excludes(other.option_);
  return *this;
}

Command Command::add_subcommand(const std::string& name, const std::string& help) {
  return {app_->add_subcommand(name, help), chosen_};
}

template <OptionValue T>
Option Command::add_option(const std::string& name, T& variable, const std::string& help) {
  return Option(app_->add_option(name, variable, help));
}

template Option Command::add_option(const std::string&, std::string&, const std::string&);
template Option Command::add_option(const std::string&, int&, const std::string&);
template Option Command::add_option(const std::string&, std::int64_t&, const std::string&);
template Option Command::add_option(const std::string&, std::uint64_t&, const std::string&);
template Option Command::add_option(const std::string&, double&, const std::string&);
template Option Command::add_option(const std::string&, std::optional<int>&, const std::string&);
template Option Command::add_option(const std::string&, std::optional<double>&, const std::string&);
template Option Command::add_option(const std::string&, std::vector<std::string>&, const std::string&);

Option Command::add_flag(const std::string& name, bool& variable, const std::string& help) {
  return Option(app_->add_flag(name, variable, help));
}

void Command::runs(const CommandRun& run) {
  app_->callback([chosen = chosen_, run] { *chosen = run; });
}

Option Command::option(const std::string& name) const { return Option(app_->get_option(name)); }

bool Command::has_been_given(const std::string& name) const { return app_->count(name) > 0; }

namespace {

/// "TEXT:{text,svg}" is "{text,svg}", "TEXT:FILE" is "FILE".
std::string value_of(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return "";
  const std::string type = option.get_type_name();
  const std::size_t at = type.find(':');
  return at == std::string::npos ? type : type.substr(at + 1);
}

std::vector<std::string> choices_of(const std::string& value) {
  std::vector<std::string> words;
  if (!value.starts_with('{') || !value.ends_with('}')) return words;
  std::istringstream list(value.substr(1, value.size() - 2));
  for (std::string word; std::getline(list, word, ',');) words.push_back(word);
  return words;
}

OptionText text_of(const CLI::Option& option) {
  OptionText text{.help = option.get_description(),
                  .group = option.get_group(),
                  .value = value_of(option),
                  .otherwise = option.get_default_str(),
                  .positional = option.get_positional(),
                  .required = option.get_required(),
                  .several = option.get_items_expected_max() > 1};
  text.choices = choices_of(text.value);
  for (const std::string& name : option.get_snames()) text.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) text.names.push_back("--" + name);
  if (text.positional) text.names = {option.get_name(true)};
  for (const CLI::Option* needed : option.get_needs()) text.needs = needed->get_name();
  return text;
}

CommandText text_of(const CLI::App& app) {
  CommandText text{app.get_name(), app.get_description(), {}, {}};
  for (const CLI::Option* option : app.get_options()) text.options.push_back(text_of(*option));
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    text.commands.push_back(text_of(*command));
  return text;
}

}  // namespace

CommandText Command::text() const { return text_of(*app_); }

struct CommandLine::State {
  explicit State(const Text& text) : app(text.summary, text.name) {}

  CLI::App app;
  CommandRun chosen;
};

CommandLine::CommandLine(std::shared_ptr<State> state)
    : Command(&state->app, &state->chosen), state_(std::move(state)) {}

CommandLine::CommandLine(const Text& text) : CommandLine(std::make_shared<State>(text)) {
  // Before there are subcommands, which take them over.
  app_->set_help_flag("-h,--help", "what it does, and the options that matter first");
  app_->set_help_all_flag("--help-all", "all options");
  app_->set_version_flag("--version", "");
  app_->get_option("--version")->description("version, build, solver and transports");
  app_->set_config("--config", "", "FILE.toml with options, those of a command in a section of its name");
  app_->allow_config_extras(CLI::config_extras_mode::error);
  app_->require_subcommand(1);
  app_->fallthrough();
}

namespace {

ParsedOption parsed(const CLI::Option& option) {
  ParsedOption result{.name = option.get_name(),
                      .long_names = {},
                      .help = option.get_description(),
                      .type = option.get_type_name(),
                      .takes_value = option.get_items_expected_max() > 0,
                      .values = option.results()};
  for (const std::string& name : option.get_lnames()) result.long_names.push_back("--" + name);
  return result;
}

void add_options_of(const CLI::App& app, ParsedLine& line) {
  for (const CLI::Option* option : app.get_options()) line.options.push_back(parsed(*option));
}

/// A command line that only asks.
void take_question(const CLI::ParseError& error, ParsedLine& line) {
  line.all_help = error.get_name() == "CallForAllHelp";
  line.helped = line.all_help || error.get_name() == "CallForHelp";
  line.versioned = error.get_name() == "CallForVersion";
  if (!line.helped && !line.versioned) line.error = error.what();
}

}  // namespace

ParsedLine CommandLine::parse(int argc, char** argv) {
  ParsedLine line;
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    take_question(error, line);
  }
  for (const CLI::App* command : app_->get_subcommands([](const CLI::App*) { return true; }))
    line.subcommands.push_back(command->get_name());
  add_options_of(*app_, line);
  for (const CLI::App* command : app_->get_subcommands()) {
    line.subcommand = command->get_name();
    add_options_of(*command, line);
  }
  line.extras = app_->remaining(true);
  line.run = *chosen_;
  return line;
}

template <class T>
bool read_number(const std::string& text, T& number) {
  return CLI::detail::lexical_cast(text, number);
}

template bool read_number(const std::string&, int&);
template bool read_number(const std::string&, double&);

}  // namespace ppsim::cli
