#include "command.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iostream>

#include "command_line/validators.hpp"
#include "output/terminal.hpp"
#include "ppsim/core/text/nearest.hpp"
#include "ppsim/planner/files.hpp"

namespace ppsim::cli {

void Output::print(const Json& object) const {
  if (silent) return;
  std::cout << object.dump(2) << '\n';
}

void Output::note(const std::string& text) const {
  if (!silent) std::cerr << text << '\n';
}

bool Output::color() const {
  const char* term = std::getenv("TERM");
  const char* unwanted = std::getenv("NO_COLOR");
  const bool dumb = term == nullptr || std::string(term) == "dumb";
  return !no_color && !json && !dumb && (unwanted == nullptr || *unwanted == '\0') &&
         ::isatty(STDOUT_FILENO) == 1;
}

void Output::done(std::size_t parts, std::size_t all) const {
  if (terminal != nullptr) terminal->done(static_cast<double>(parts) / static_cast<double>(all));
}

int exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::bad_argument:
    case ErrorCode::bad_file:
      return kUsage;
    case ErrorCode::does_not_fit:
      return kDoesNotFit;
    case ErrorCode::ill_formed:
    case ErrorCode::deadlock:
    case ErrorCode::refused:
      return kRefuted;
    case ErrorCode::io:
      return kFailed;
  }
  return kFailed;
}

int first_code(const std::set<int>& codes) {
  for (const int code : {kUsage, kFailed, kRefuted, kDoesNotFit, kUnknown}) {
    if (codes.contains(code)) return code;
  }
  return kDone;
}

namespace {

/// Where an error lists the words that are known, with the nearest of them, unless it says that already.
Error with_suggestion(Error error) {
  constexpr std::string_view kOneOf = "one of ";
  constexpr std::array<std::string_view, 3> kNoNames = {"or", "one", "of"};
  std::string_view list = error.place.expected;
  const bool is_list = list.starts_with(kOneOf) || error.message.starts_with("unknown ");
  const bool is_sentence =
      list.starts_with("an option of ") || error.place.found.find(' ') != std::string::npos;
  if (error.code != ErrorCode::bad_argument || !is_list || is_sentence || error.message.ends_with(')'))
    return error;
  if (list.starts_with(kOneOf)) list.remove_prefix(kOneOf.size());
  std::vector<std::string_view> known;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::string_view word = list.substr(begin, list.find_first_of(", ", begin) - begin);
    if (!word.empty() && std::ranges::find(kNoNames, word) == kNoNames.end()) known.push_back(word);
    begin += word.size() + 1;
  }
  const bool is_known = std::ranges::find(known, error.place.found) != known.end();
  if (!is_known) error.message += suggestion(error.place.found, known);
  return error;
}

}  // namespace

int report(const Error& wrong, const Output& output) {
  const Error error = with_suggestion(wrong);
  if (!output.silent) std::cerr << "ppsim: " << error << '\n';
  if (output.json) output.print({{"error", error_json(error)}});
  return exit_code(error.code);
}

Json error_json(const Error& error) {
  const ErrorPlace& place = error.place;
  return {{"code", error_code_name(error.code)},
          {"file", place.file},
          {"row", place.row},
          {"column", place.column},
          {"found", place.found},
          {"expected", place.expected},
          {"message", error.message}};
}

void add_parameter_options(Command& command, InputOptions& options) {
  command.add_option("--ranks", options.ranks, "pipeline ranks of NAME").check(count());
  command.add_option("--microbatches", options.microbatches, "microbatches of NAME").check(count());
  command.add_option("--chunks", options.chunks, "stages per rank of NAME").check(count());
  command.add_option("--slices", options.slices, "pieces of a microbatch along the sequence of NAME")
      .check(count());
  command.add_option("--set", options.settings, "settings of NAME, key=value").one_value_each();
}

void add_replicas_option(Command& command, InputOptions& options) {
  command
      .add_option(
          "--replicas", options.replicas,
          "data-parallel copies of a schedule, each on ranks and microbatches of its own, that sum their "
          "gradients: N times the ranks")
      .show_default()
      .check(count());
}

void add_tied_option(Command& command, InputOptions& options) {
  command.add_flag("--tied", options.tied,
                   "the first and the last stages share the weights of tokens, whose gradients are summed");
}

void add_offload_option(Command& command, InputOptions& options) {
  command
      .add_option("--offload", options.offload,
                  "none, all, half, 25% or stages=0,1: activations in host memory until their backward")
      .show_default();
}

void add_send_done_option(Command& command, InputOptions& options) {
  command.add_option(
      "--send-done-delay", options.send_done_delay,
      "N or end: what is sent stays until N later sends of its channel are complete, or to the "
      "step's end (default 0; with --for what the release does)");
}

void add_dialect_option(Command& command, std::string& dialect) {
  command
      .add_option("--dialect", dialect,
                  "alphabet of a CSV file: torch, torch-2.15 (writes WAIT cells), legacy or zero-bubble")
      .show_default();
}

void add_input_options(Command& command, InputOptions& options) {
  add_parameter_options(command, options);
  add_offload_option(command, options);
  add_send_done_option(command, options);
  add_dialect_option(command, options.dialect);
}

void add_target_option(Command& command, std::string& target) {
  command.add_option(
      "--for", target,
      "torch-2.15, torch-2.14, legacy (PyTorch before 2.6) or jaxpp-0.9.2: as that release loads and "
      "runs it, on its transport");
}

Expected<std::optional<Target>> target_of(const std::string& name) {
  if (name.empty()) return std::optional<Target>();
  PPSIM_ASSIGN_OR_RETURN(const auto target, of_option(target_named(name), "target", "--for"));
  return std::optional<Target>(target);
}

Expected<CsvDialect> dialect_of(const std::string& name) {
  return of_option(dialect_from_name(name), "dialect", "--dialect");
}

Expected<CsvDialect> written_dialect(const InputOptions& input, const std::string& path) {
  auto asked = dialect_of(input.dialect);
  if (!asked || *asked == CsvDialect::torch) return asked;
  const bool reads = suffix_of(input.input) != ".json" && names_file(input.input);
  if (reads) return *asked == CsvDialect::torch_2_15 ? *asked : CsvDialect::torch;
  if (suffix_of(path) == ".csv" && input.target.empty()) return asked;
  return make_error(ErrorCode::bad_argument, "--dialect is for a CSV that is read, or written without --for",
                    {.found = "--dialect " + input.dialect, .expected = "no --dialect"});
}

void note_gradients(const Ir& ir, const std::string& path, CsvDialect dialect, const Output& output) {
  const auto* program = std::get_if<Program>(&ir);
  const bool divides = dialect == CsvDialect::torch || dialect == CsvDialect::torch_2_15;
  if (program == nullptr || !divides || suffix_of(path) != ".csv") return;
  const std::string warning = gradient_warning(*program);
  if (!warning.empty()) output.note("ppsim: " + path + ": " + warning);
}

Expected<TransportCapabilities> buffers_from_text(const std::string& text) {
  TransportCapabilities capabilities;
  if (text == "rendezvous") return capabilities;
  int credits = 0;
  if (!read_number(text, credits) || credits < 1) {
    return make_error(ErrorCode::bad_argument, "--buffers out of range",
                      {.found = text, .expected = "rendezvous, or 1 to 2147483647"});
  }
  capabilities.credits = credits;
  return capabilities;
}

}  // namespace ppsim::cli
