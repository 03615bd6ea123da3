#include <cstring>
#include <exception>
#include <iostream>
#include <new>
#include <system_error>

#include "command.hpp"
#include "command_line/command_line.hpp"
#include "commands/effects/effects.hpp"
#include "commands/study.hpp"
#include "output/terminal.hpp"
#include "plugins/plugins.hpp"
#include "ppsim/core/ir/overflow.hpp"
#include "processes/interruption.hpp"
#include "program.hpp"

namespace {

bool asks_for_json(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) return true;
  }
  return false;
}

/// Data that did not reach its reader is an error like any other, unless that was said already.
int flushed(int exit, const ppsim::cli::Output& output) {
  if (exit == ppsim::cli::kFailed && !std::cout) return exit;
  if (std::cout << std::flush) return exit;
  const ppsim::Error error{ppsim::ErrorCode::io, "cannot write all of the result", {.file = "-"}};
  return ppsim::cli::report(error, {.json = false, .no_color = output.no_color});
}

int run(int argc, char** argv) {
  using namespace ppsim::cli;
  CommandLine program(
      {.name = "ppsim",
       .summary =
           "Pipeline-parallel schedules: what they cost, what memory they need, and that they cannot hang."});
  Output output{.arguments = {argv + 1, argv + argc}};
  program.add_flag("--json", output.json, "print one JSON object, units in the keys");
  program.add_flag("--no-color", output.no_color, "no colours, as with NO_COLOR or TERM=dumb");
  for (const auto add : {add_list,        add_generate, add_convert,    add_export,
                         add_lower,       add_show,     add_simulate,   add_compare,
                         add_sensitivity, add_jitter,   add_contention, add_replay,
                         add_calibrate,   add_chakra,   add_verify,     add_check_certificate,
                         add_synthesize,  add_run,      add_profile,    add_predict,
                         add_validate,    add_plan,     add_study,      add_doctor,
                         add_schema,      add_help}) {
    add(program);
  }
  std::vector<std::string> plugins;
  program
      .add_option("--plugin", plugins,
                  "LIBRARY.so or FILE.py with schedules and cost models of your own; may be repeated")
      .one_value_each();
  output.json = asks_for_json(argc, argv);  // so that a bad command line is reported as asked
  const auto action = parse_command_line(program, argc, argv);
  if (!action) return report(action.error(), output);
  for (const std::string& plugin : plugins) {
    if (const auto loaded = load_plugin(plugin); !loaded) return report(loaded.error(), output);
  }
  Terminal terminal(!output.json);
  output.terminal = &terminal;
  return flushed((*action)(output), output);
}

}  // namespace

int ppsim::cli::run_program(int argc, char** argv) {
  const ppsim::cli::Output output{.json = asks_for_json(argc, argv)};
  ppsim::cli::leave_on_interrupt(output.json);
  ppsim::cli::leave_when_out_of_memory(output);
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc&) {
    return ppsim::cli::report({ppsim::ErrorCode::io, "out of memory"}, output);
  } catch (const std::system_error& refused) {
    return ppsim::cli::report(
        {ppsim::ErrorCode::io, std::string("the system refuses a thread or memory: ") + refused.what()},
        output);
  } catch (const ppsim::Overflow& sum) {
    return ppsim::cli::report(
        {ppsim::ErrorCode::bad_argument,
         "the costs or sizes add up to more than fits in 64 bits",
         {.found = sum.what(), .expected = "at most 9223372036854775807 ns (292 years) or bytes in all"}},
        output);
  } catch (const std::exception& bug) {
    return ppsim::cli::report(
        {ppsim::ErrorCode::io, std::string("internal error, please report: ") + bug.what()}, output);
  }
}
