#include <algorithm>
#include <cstring>
#include <exception>
#include <iostream>
#include <span>

#include "command.hpp"
#include "interruption.hpp"
#include "ppsim/core/nearest.hpp"

namespace {

bool asks_for_json(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) return true;
  }
  return false;
}

/// A word where a subcommand belongs, such as `simulat`.
ppsim::Error no_subcommand(const CLI::App& app, const char* word) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  const std::vector<std::string_view> known(names.begin(), names.end());
  if (word == nullptr) {
    return {ppsim::ErrorCode::bad_argument,
            "no subcommand; see --help",
            {.found = "", .expected = "one of " + ppsim::joined(known)}};
  }
  return {ppsim::ErrorCode::bad_argument,
          "unknown subcommand" + ppsim::suggestion(word, known),
          {.found = word, .expected = "one of " + ppsim::joined(known)}};
}

int parse_error(const CLI::ParseError& error, const CLI::App& app, std::span<char*> arguments,
                const ppsim::cli::Output& output) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return app.exit(error);
  if (app.get_subcommands().empty()) {
    const auto word = std::ranges::find_if(arguments, [](const char* text) { return text[0] != '-'; });
    return ppsim::cli::report(no_subcommand(app, word == arguments.end() ? nullptr : *word), output);
  }
  return ppsim::cli::report({ppsim::ErrorCode::bad_argument, std::string(error.what()) + "; see --help"},
                            output);
}

/// Data that did not reach its reader is an error like any other.
int flushed(int exit, const ppsim::cli::Output& output) {
  if (std::cout << std::flush) return exit;
  const ppsim::Error error{ppsim::ErrorCode::io, "cannot write all of the result", {.file = "-"}};
  return ppsim::cli::report(error, {.json = false, .no_color = output.no_color});
}

int run(int argc, char** argv) {
  using namespace ppsim::cli;
  CLI::App app{
      "Pipeline-parallel schedules: what they cost, what memory they need, and that they cannot hang.",
      "ppsim"};
  app.set_version_flag("--version", PPSIM_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  Output output{.arguments = {argv + 1, argv + argc}};
  app.add_flag("--json", output.json, "print one JSON object, units in the keys");
  app.add_flag("--no-color", output.no_color, "no colours, as with NO_COLOR or TERM=dumb");
  Selected selected;
  for (const auto add :
       {add_list, add_generate, add_convert, add_lower, add_show, add_simulate, add_compare, add_verify,
        add_check_certificate, add_synthesize, add_run, add_profile, add_predict, add_doctor}) {
    add(app, selected);
  }
  app.footer(
      "Exit codes: 0 done; 1 run-time failure; 2 bad command line or file; 3 does not fit; 4 refuted; 5 "
      "unknown; 130 interrupted.");
  output.json = asks_for_json(argc, argv);  // so that a bad command line is reported as asked
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return parse_error(error, app, {argv + 1, argv + argc}, output);
  }
  return flushed(selected(output), output);
}

}  // namespace

int main(int argc, char** argv) {
  const ppsim::cli::Output output{.json = asks_for_json(argc, argv)};
  ppsim::cli::leave_on_interrupt(output.json);
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc&) {
    return ppsim::cli::report({ppsim::ErrorCode::io, "out of memory"}, output);
  } catch (const std::exception& bug) {
    return ppsim::cli::report(
        {ppsim::ErrorCode::io, std::string("internal error, please report: ") + bug.what()}, output);
  }
}
