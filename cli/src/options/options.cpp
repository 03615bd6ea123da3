#include "options.hpp"

#include <CLI/CLI.hpp>
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

struct CommandLine::State {
  explicit State(const Text& text) : app(text.summary, text.name), footer(text.footer) {}

  CLI::App app;
  std::string footer;
  CommandRun chosen;
};

CommandLine::CommandLine(std::shared_ptr<State> state)
    : Command(&state->app, &state->chosen), state_(std::move(state)) {}

CommandLine::CommandLine(const Text& text) : CommandLine(std::make_shared<State>(text)) {
  app_->set_version_flag("--version", text.version);
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

/// Whether it is a command line that only asks; what it asks for is printed.
bool is_help(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() != static_cast<int>(CLI::ExitCodes::Success)) return false;
  app.exit(error);
  return true;
}

}  // namespace

ParsedLine CommandLine::parse(int argc, char** argv) {
  app_->footer(state_->footer);  // not before, or every subcommand would have it
  ParsedLine line;
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    line.helped = is_help(*app_, error);
    if (!line.helped) line.error = error.what();
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
