#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "command_line/options.hpp"
#include "output/json.hpp"
#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/planner/costs/costs.hpp"
#include "ppsim/planner/ir_source.hpp"
#include "ppsim/planner/phase_times.hpp"
#include "ppsim/planner/targets.hpp"

namespace ppsim::cli {

/// Exit codes of the command line contract.
inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;
inline constexpr int kUsage = 2;
inline constexpr int kDoesNotFit = 3;
inline constexpr int kRefuted = 4;
inline constexpr int kUnknown = 5;
inline constexpr int kInterrupted = 130;
inline constexpr int kTerminated = 143;

class Terminal;

/// How results are printed: data to stdout, everything else to stderr.
struct Output {
  bool json = false;
  bool no_color = false;
  bool silent = false;                 ///< one of several processes, of which another one speaks
  std::vector<std::string> arguments;  ///< of the command line, without the program's name
  Terminal* terminal = nullptr;        ///< where there may be one

  void print(const Json& object) const;
  /// A note to the person at the terminal.
  void note(const std::string& text) const;
  [[nodiscard]] bool color() const;
  /// So many of so many parts of the work are done.
  void done(std::size_t parts, std::size_t all) const;
};

/// Exit code of an error.
[[nodiscard]] int exit_code(ErrorCode code);
/// Of several exit codes the first of 2, 1, 4, 3, 5; else kDone.
[[nodiscard]] int first_code(const std::set<int>& codes);
/// Prints an error as the contract says and returns its exit code.
int report(const Error& wrong, const Output& output);
[[nodiscard]] Json error_json(const Error& error);

/// FILE or NAME with the parameters of NAME.
struct InputOptions {
  std::string input;
  ScheduleParameters parameters;
  std::vector<std::string> settings;  ///< key=value
  std::string dialect = "torch";
  std::string target;                    ///< of --for; empty: none
  std::optional<Target> loaded_by = {};  ///< inputs that it does not load are refused
  bool writes_dialect = false;           ///< --dialect may be that of an output
  std::optional<int> ranks, microbatches, chunks, slices;
  int replicas = 1;
  bool tied = false;  ///< embedding and head share their weights
  std::string offload = "none";
  std::string send_done_delay;  ///< empty: 0, or the target's
  [[nodiscard]] bool has_parameters() const {
    return ranks || microbatches || chunks || slices || !settings.empty();
  }
  void drop_parameters() { ranks = microbatches = chunks = slices = {}, settings.clear(); }
};
void add_parameter_options(Command& command, InputOptions& options);
void add_replicas_option(Command& command, InputOptions& options);
void add_tied_option(Command& command, InputOptions& options);
void add_offload_option(Command& command, InputOptions& options);
void add_send_done_option(Command& command, InputOptions& options);
void add_dialect_option(Command& command, std::string& dialect);
/// Those of an input that becomes a Program: parameters, --offload, --send-done-delay and --dialect.
void add_input_options(Command& command, InputOptions& options);
/// What a library makes of an option's text; an error names the option in place of `what`.
template <class T>
[[nodiscard]] Expected<T> of_option(Expected<T> result, std::string_view what, std::string_view option) {
  if (result) return result;
  std::string& message = result.error().message;
  if (const auto at = message.find(what); at != std::string::npos) message.replace(at, what.size(), option);
  return result;
}
/// Errors: bad_argument naming --dialect.
[[nodiscard]] Expected<CsvDialect> dialect_of(const std::string& name);
void add_target_option(Command& command, std::string& target);
/// The target that --for names; nothing for an empty text.
/// Errors: bad_argument.
[[nodiscard]] Expected<std::optional<Target>> target_of(const std::string& name);
/// The alphabet of a CSV that is written: that of the target, or of --dialect where the input is no CSV.
/// Errors: bad_argument where --dialect has no use, and where both name one.
[[nodiscard]] Expected<CsvDialect> written_dialect(const InputOptions& input, const std::string& path);
/// Tells the person at the terminal where a file that is written makes PyTorch compute other gradients: one
/// in an alphabet since 2.6, when REDUCE_GRAD began to divide them.
void note_gradients(const Ir& ir, const std::string& path, CsvDialect dialect, const Output& output);

/// The values of --unit and --token-costs, --costs, --model and the options of a model.
struct CostOptions {
  std::string unit, tokens, costs, model, cluster;
  int nodes = 1;
  Parallelism parallelism;
  std::string dtype = "bf16";
  std::string recompute = "none";
  std::string rank_order = "tp-cp-dp-pp";
  std::string layout = "even";
  std::string stack = "megatron-core";
  std::string calibration;
  bool pipeline_only = false;
  std::optional<CostSource> instead = {};  ///< where no other source is given
  [[nodiscard]] bool given() const { return !unit.empty() || !costs.empty() || !model.empty(); }
};
void add_cost_source_options(Command& command, CostOptions& options);
/// Those, and --recompute.
void add_cost_options(Command& command, CostOptions& options);
/// Nothing when no costs were given.
/// Errors: bad_argument when two sources are given, or those of the source.
[[nodiscard]] Expected<std::optional<CostSource>> cost_source(const CostOptions& options);

/// The error of `what`, such as "simulate", to which no costs were given.
[[nodiscard]] Error needs_costs(const std::string& what);

/// An input with its costs, from which most commands start.
struct Subject {
  std::string name;
  Ir ir;
  std::optional<CostBinding> costs;
  std::string table_file;                   ///< of --costs, which must have a cost for everything that runs
  StageRecompute recompute;                 ///< that was asked for, or chosen
  Offload offload;                          ///< that was asked for
  std::optional<int> send_done_delay = {};  ///< that was asked for
  int replicas = 1;                         ///< of the schedule that are in `ir`
  bool native_program = false;              ///< a Program from a JSON file: its communicators are given
  PhaseTimes phases = {};                   ///< up to the costs

  [[nodiscard]] const CostTable* cost_table() const { return costs ? &costs->tables.costs : nullptr; }
};
/// Reads FILE or generates NAME; with a model the ranks and microbatches follow from its parallelism. Several
/// replicas become one schedule, with costs for all of it.
/// Errors: bad_file where the table of --costs lacks something of it, too.
[[nodiscard]] Expected<Subject> read_subject(const InputOptions& input, const CostOptions& costs,
                                             CommunicatorPolicy policy = CommunicatorPolicy::per_edge);
/// A Schedule lowered, a Program as it is.
/// Errors: those of to_program; bad_file where the table of --costs lacks something of it.
[[nodiscard]] Expected<Program> lowered_program(const Subject& subject, const LoweringOptions& lowering,
                                                const PassObserver& observer = nullptr);
/// The Program of a subject under the default options.
[[nodiscard]] Expected<Program> default_program(const Subject& subject);
[[nodiscard]] LoweringOptions default_lowering(const Subject& subject);
/// COSTS decide the order of a schedule's instructions: a trace that is not this Program's may be a run of
/// the schedule with others.
[[nodiscard]] Error of_other_costs(Error error, bool is_schedule);
/// Adds the actions that --with asks for: load, unshard, reduce-grad, reduce-grad-each-microbatch, opt,
/// clip.
/// Errors: bad_argument for anything else, for one that is named twice, and for one that needs a backward.
[[nodiscard]] Expected<void> add_extras(LoweringOptions& lowering, const std::string& extras, const Ir& ir);
/// Errors: bad_argument where the input is a Program, to which `option` comes too late.
[[nodiscard]] Expected<void> check_is_schedule(const Ir& ir, const std::string& option);

/// The capabilities of --buffers: `rendezvous` or the messages that a channel buffers.
[[nodiscard]] Expected<TransportCapabilities> buffers_from_text(const std::string& text);
/// A number with so many digits behind its point; one with the first four that it has, "0.1235".
[[nodiscard]] std::string fixed_text(double number, int digits);
[[nodiscard]] std::string number_text(double number);
/// "1.234 s", "56.7 ms"; "12.3 GB".
[[nodiscard]] std::string time_text(Nanoseconds time);
[[nodiscard]] std::string size_text(Bytes size);
/// "2.02 GB of 2.01 GB", in bytes where both would read the same.
[[nodiscard]] std::string sizes_apart(Bytes size, Bytes limit);
[[nodiscard]] std::string percent_text(double fraction);
/// "+1.23 %", "-1.23 %", "+0.00 %".
[[nodiscard]] std::string signed_percent_text(double fraction);
/// The difference of a measured time from the simulated one, "+1.23 %"; "" with nothing to compare.
[[nodiscard]] std::string difference_text(Nanoseconds measured, Nanoseconds simulated);

/// The kinds of actions of a Program that the costs name no price of: they take no time.
[[nodiscard]] std::vector<std::string> free_kinds(const CostTable& costs, const Program& program);
/// The line that names them; empty where every action has a price.
[[nodiscard]] std::string free_kinds_text(const std::vector<std::string>& kinds);

/// "640, 384 and 256".
[[nodiscard]] std::string lengths_text(const std::vector<int>& lengths);

/// Rows of cells; the first row is the header.
using TextTable = std::vector<std::vector<std::string>>;
/// The rows aligned; the first column always left.
enum class Align { left, right };
[[nodiscard]] std::string table_text(const TextTable& rows, Align align = Align::right);

/// Each adds its subcommand, one file each.
void add_list(Command& program);
void add_generate(Command& program);
void add_convert(Command& program);
void add_export(Command& program);
void add_lower(Command& program);
void add_show(Command& program);
void add_simulate(Command& program);
void add_compare(Command& program);
void add_verify(Command& program);
void add_check_certificate(Command& program);
void add_synthesize(Command& program);
void add_run(Command& program);
void add_profile(Command& program);
void add_predict(Command& program);
void add_validate(Command& program);
void add_plan(Command& program);
void add_doctor(Command& program);
void add_schema(Command& program);
/// help, completion and man.
void add_help(Command& program);

}  // namespace ppsim::cli
