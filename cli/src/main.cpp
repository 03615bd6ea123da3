#include <unistd.h>

#include <csignal>
#include <cstring>
#include <exception>
#include <iostream>

#include "command.hpp"

namespace {

/// Files are replaced in one step, so there is nothing to clean up: say so and leave.
void on_interrupt(int) {
  constexpr char kText[] = "\nppsim: interrupted; no file was left half-written\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kText, sizeof kText - 1);
  ::_exit(ppsim::cli::kInterrupted);
}

bool asks_for_json(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) return true;
  }
  return false;
}

int parse_error(const CLI::ParseError& error, const CLI::App& app, const ppsim::cli::Output& output) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return app.exit(error);
  return ppsim::cli::report({ppsim::ErrorCode::bad_argument, std::string(error.what()) + "; see --help"},
                            output);
}

int run(int argc, char** argv) {
  using namespace ppsim::cli;
  CLI::App app{
      "Pipeline-parallel schedules: what they cost, what memory they need, and that they cannot hang.",
      "ppsim"};
  app.set_version_flag("--version", PPSIM_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  Output output;
  app.add_flag("--json", output.json, "print one JSON object, units in the keys");
  app.add_flag("--no-color", output.no_color, "no colours, as with NO_COLOR or TERM=dumb");
  Selected selected;
  for (const auto add : {add_list, add_generate, add_convert, add_lower, add_show, add_simulate, add_compare,
                         add_verify, add_check_certificate, add_run, add_doctor}) {
    add(app, selected);
  }
  app.footer(
      "Exit codes: 0 done; 1 run-time failure; 2 bad command line or file; 3 does not fit; 4 refuted; 5 "
      "unknown; 130 interrupted.");
  output.json = asks_for_json(argc, argv);  // so that a bad command line is reported as asked
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return parse_error(error, app, output);
  }
  return selected(output);
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc&) {
    return ppsim::cli::report({ppsim::ErrorCode::io, "out of memory"}, {});
  } catch (const std::exception& bug) {
    std::cerr << "ppsim: internal error, please report: " << bug.what() << '\n';
    return ppsim::cli::kFailed;
  }
}
