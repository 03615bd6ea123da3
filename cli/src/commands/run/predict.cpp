#include <algorithm>
#include <chrono>
#include <iostream>
#include <set>
#include <thread>

#include "command_line/validators.hpp"
#include "input/named_input.hpp"
#include "options/measurement.hpp"
#include "output/slowdown_output.hpp"
#include "ppsim/core/ir/padding.hpp"
#include "ppsim/gpu_backend/executor/backends.hpp"
#include "ppsim/planner/files.hpp"
#include "ppsim/planner/prediction.hpp"
#include "ppsim/planner/profile.hpp"
#include "run_output.hpp"

namespace ppsim::cli {
namespace {

struct PredictOptions {
  Measurement measurement{.steps = 7};
  std::vector<std::string> inputs, calibrate = {"1f1b", "zb-h1"};
  std::string points, costs_out;
  std::optional<double> time_limit_s, deadline_s;
  bool alone = false;
};

/// One schedule that was run, or the error that kept it from running.
struct Point {
  std::string name;
  int ranks = 0, microbatches = 0, stages = 0;
  std::string kernels = {};                  ///< the kernels that ran where others could
  std::optional<int> ranks_per_device = {};  ///< where slowdowns are known, or are missing
  std::string note = {};                     ///< effects that its simulation lacks
  Expected<Prediction> prediction;
};

class RunTimer {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// The options are for the names that do not say it themselves: those that are calibrated with may.
Expected<Subject> predicted_subject(InputOptions one, const std::string& name) {
  one.input = name;
  one = without_what_name_says(std::move(one));
  if (names_file(name)) one.drop_parameters();
  const CostOptions no_costs;
  return read_subject(one, no_costs);
}

/// Where nothing else is said, the calibration has the ranks and microbatches of the first input.
Expected<InputOptions> calibration_input(const PredictOptions& options) {
  InputOptions input = options.measurement.input;
  if (input.ranks && input.microbatches) return input;
  PPSIM_ASSIGN_OR_RETURN(const auto first, predicted_subject(input, options.inputs.front()));
  const Pipeline& pipeline = pipeline_of(first.ir);
  if (!input.ranks) input.ranks = pipeline.ranks();
  if (!input.microbatches) input.microbatches = batch_microbatches(pipeline);
  return input;
}

Expected<std::vector<Program>> calibration_programs(const PredictOptions& options) {
  PPSIM_ASSIGN_OR_RETURN(const auto input, calibration_input(options));
  std::vector<Program> programs;
  for (const std::string& name : options.calibrate) {
    PPSIM_ASSIGN_OR_RETURN(const auto subject, predicted_subject(input, name));
    PPSIM_ASSIGN_OR_RETURN(auto program, default_program(subject));
    programs.push_back(std::move(program));
  }
  return programs;
}

/// The inputs that all points share.
struct Setting {
  const PredictOptions& options;
  const StageModel& model;
  RunOptions run;
  Tables tables;
  std::optional<SlowdownFit> slowdowns = {};  ///< where ranks share a device, or times follow its load
};

/// The ranks that share a device. On a CPU all ranks share the cores, unless there is a core for each rank.
int ranks_per_device(const PredictOptions& options, int ranks) {
  const int device = options.measurement.device.backend == "cuda"
                         ? options.measurement.device.ranks_per_device
                     : std::thread::hardware_concurrency() < static_cast<unsigned>(ranks) ? ranks
                                                                                          : 1;
  return options.alone ? 1 : std::min(device, ranks);
}

/// Runs and simulates a Program, with the slowdowns of the calibration for `ranks_per_device` ranks that
/// share a device.
Expected<Prediction> predicted(const Setting& setting, const AnalyzedProgram& program, int ranks_per_device) {
  RunOptions run = setting.run;
  if (!setting.options.deadline_s) {
    PPSIM_ASSIGN_OR_RETURN(const auto deadline_s, default_deadline_s(program, setting.tables.costs));
    run.deadline_s = deadline_s;
  }
  if (!setting.slowdowns) return predict(program, setting.model, run, {setting.tables.costs, nullptr});
  SlowdownFit slowdowns = *setting.slowdowns;
  if (slowdowns.devices.ranks != ranks_per_device) slowdowns.load = {};  // fewer or more ranks load a device
  slowdowns.devices.ranks = ranks_per_device;
  return predict(program, setting.model, run, {setting.tables.costs, &slowdowns});
}

constexpr const char* kNoLoad =
    "its devices have another number of ranks than those of the calibration: its times do not follow the "
    "load";
constexpr const char* kNoSlowdowns =
    "its ranks share a device, and those of the calibration do not: it is simulated as if "
    "none slowed another down";

/// Errors: first those of inputs, which are wrong on any machine. A schedule that does not accept these
/// numbers is left to its point, as in `compare`; a file that cannot be read is an error here.
Expected<void> open_device(const PredictOptions& options) {
  auto opened = open_backend(options.measurement.device);
  for (const std::string& name : options.inputs) {
    if (!opened || names_file(name))
      PPSIM_RETURN_IF_ERROR(predicted_subject(options.measurement.input, name));
  }
  return opened;
}

/// Runs a schedule whose transfers stand in the order of the measured costs.
Point point_of(const Setting& setting, const std::string& name) {
  Point point{.name = name, .prediction = Prediction()};
  const auto subject = predicted_subject(setting.options.measurement.input, name);
  if (!subject) return point.prediction = tl::unexpected(subject.error()), point;
  LoweringOptions lowering = default_lowering(*subject);
  lowering.order = IssueOrder::timed;
  const auto program = to_program(subject->ir, lowering, &setting.tables.costs);
  if (!program) return point.prediction = tl::unexpected(program.error()), point;
  point.ranks = program->pipeline().ranks();
  point.microbatches = batch_microbatches(program->pipeline());
  point.stages = program->pipeline().stages();
  const int sharing = ranks_per_device(setting.options, point.ranks);
  if (setting.slowdowns || sharing > 1) point.ranks_per_device = sharing;
  point.kernels = kernels_text(setting.options.measurement.device, setting.model, program->pipeline());
  point.prediction = predicted(setting, {*program, setting.run.capabilities}, sharing);
  const int calibrated = setting.slowdowns ? setting.slowdowns->devices.ranks : 1;
  if (!point.prediction || calibrated == sharing) return point;
  if (setting.slowdowns && setting.slowdowns->load.exponent > 0) point.note = kNoLoad;
  if (calibrated == 1) point.note = kNoSlowdowns;
  return point;
}

Json point_json(const Point& point) {
  Json object = {{"schedule", point.name},
                 {"ranks", point.ranks},
                 {"microbatches", point.microbatches},
                 {"stages", point.stages}};
  if (point.ranks_per_device) object["ranks_per_device"] = *point.ranks_per_device;
  if (!point.note.empty()) object["note"] = point.note;
  if (!point.prediction) {
    object["error"] = error_json(point.prediction.error());
    return object;
  }
  const Prediction& p = *point.prediction;
  object["steps_ns"] = p.step_ns;
  object["measured_step_ns"] = p.measured_step_ns;
  object["simulated_step_ns"] = p.simulated_step_ns;
  object["step_error"] = p.step_error();
  object["measured_bubble"] = p.measured_bubble;
  object["simulated_bubble"] = p.simulated_bubble;
  object["bubble_error"] = p.bubble_error();
  if (p.undisturbed) {
    object["undisturbed"] = {{"simulated_step_ns", p.undisturbed->step_ns},
                             {"step_error", p.undisturbed_step_error()},
                             {"simulated_bubble", p.undisturbed->bubble},
                             {"bubble_error", p.undisturbed->bubble - p.measured_bubble}};
  }
  object["host"] = host_json(p.host);
  if (!point.kernels.empty()) object["kernels"] = point.kernels;
  return object;
}

/// The result, and how it ended.
struct Predictions {
  std::vector<Point> points;
  std::optional<SlowdownFit> slowdowns = {};
  std::size_t left_out = 0;     ///< for want of time
  Expected<void> written = {};  ///< or the first file that failed

  [[nodiscard]] ErrorSummary errors(double (Prediction::*error)() const) const {
    std::vector<double> values;
    for (const Point& point : points) {
      if (point.prediction) values.push_back(((*point.prediction).*error)());
    }
    return summarize(std::move(values));
  }
  /// The devices that computed, each once.
  [[nodiscard]] std::set<std::string> kernels() const {
    std::set<std::string> texts;
    for (const Point& point : points) texts.insert(point.kernels);
    texts.erase("");
    return texts;
  }
  [[nodiscard]] bool measured() const {
    return std::ranges::any_of(points, [](const Point& p) { return p.prediction.has_value(); });
  }
  [[nodiscard]] int code() const {
    std::set<int> codes;
    if (!written) codes.insert(exit_code(written.error().code));
    if (left_out > 0) codes.insert(kUnknown);
    for (const Point& point : points) {
      if (!point.prediction) codes.insert(exit_code(point.prediction.error().code));
    }
    return first_code(codes);
  }
};

/// Returns: null where nothing was measured.
Json summary_json(const Predictions& outcome, double (Prediction::*error)() const) {
  if (!outcome.measured()) return nullptr;
  const ErrorSummary summary = outcome.errors(error);
  return {{"median", summary.median}, {"p95", summary.p95}, {"largest", summary.largest}};
}

void print_errors(const char* what, const ErrorSummary& errors) {
  std::cout << what << ": median " << percent_text(errors.median) << ", 95 of 100 within "
            << percent_text(errors.p95) << ", largest " << percent_text(errors.largest) << '\n';
}

void print_text(const Predictions& outcome) {
  TextTable rows = {{"schedule", "ranks", "m", "measured step", "simulated step", "error", "measured bubble",
                     "simulated bubble"}};
  if (outcome.slowdowns) rows.front().emplace_back("error undisturbed");
  for (const Point& point : outcome.points) {
    std::vector<std::string> row = {point.name, std::to_string(point.ranks),
                                    std::to_string(point.microbatches)};
    if (point.prediction) {
      const Prediction& p = *point.prediction;
      row.insert(row.end(),
                 {time_text(p.measured_step_ns), time_text(p.simulated_step_ns), percent_text(p.step_error()),
                  percent_text(p.measured_bubble), percent_text(p.simulated_bubble)});
      if (p.undisturbed) row.push_back(percent_text(p.undisturbed_step_error()));
    } else {
      row.emplace_back("failed");
    }
    rows.push_back(std::move(row));
  }
  std::cout << table_text(rows);
  for (const Point& point : outcome.points) {
    if (!point.prediction) std::cout << point.name << ": " << to_string(point.prediction.error()) << '\n';
    if (!point.note.empty()) std::cout << point.name << ": " << point.note << '\n';
  }
  if (outcome.left_out > 0) std::cout << outcome.left_out << " schedules were left out: the time is over\n";
  if (!outcome.measured()) return;
  print_errors("error of the step", outcome.errors(&Prediction::step_error));
  if (!outcome.slowdowns) return;
  print_errors("error undisturbed", outcome.errors(&Prediction::undisturbed_step_error));
  if (outcome.slowdowns->devices.ranks > 1) std::cout << slowdown_fit_text(*outcome.slowdowns);
  if (const LoadFit& load = outcome.slowdowns->load; load.exponent > 0)
    std::cout << "computation takes longer under load: its time grows with the busy share of the devices to "
                 "the power of "
              << fixed_text(load.exponent, 2) << "; costs are those of " << percent_text(load.share) << '\n';
}

/// Runs all points, and writes each to the file as soon as it is complete.
Predictions run_points(const Setting& setting, const RunTimer& watch, const Output& output) {
  const PredictOptions& options = setting.options;
  Predictions outcome{.slowdowns = setting.slowdowns};
  for (const std::string& name : options.inputs) {
    if (options.time_limit_s && watch.seconds() > *options.time_limit_s) {
      ++outcome.left_out;
      continue;
    }
    outcome.points.push_back(point_of(setting, name));
    output.done(outcome.points.size() + outcome.left_out, options.inputs.size());
    if (options.points.empty() || !outcome.written) continue;
    outcome.written = append_text_file(options.points, point_json(outcome.points.back()).dump() + '\n');
  }
  return outcome;
}

Json outcome_json(const Predictions& outcome) {
  Json points = Json::array();
  for (const Point& point : outcome.points) points.push_back(point_json(point));
  Json object = {{"points", std::move(points)},
                 {"left_out", outcome.left_out},
                 {"step_error", summary_json(outcome, &Prediction::step_error)},
                 {"bubble_error", summary_json(outcome, &Prediction::bubble_error)}};
  if (outcome.slowdowns) {
    object["undisturbed_step_error"] = summary_json(outcome, &Prediction::undisturbed_step_error);
    object["slowdowns"] = slowdown_fit_json(*outcome.slowdowns);
    if (const LoadFit& load = outcome.slowdowns->load; load.exponent > 0)
      object["load"] = {{"exponent", load.exponent}, {"busy_share", load.share}};
  }
  return object;
}

Expected<int> predict_all(const PredictOptions& options, const Output& output) {
  const RunTimer watch;
  PPSIM_ASSIGN_OR_RETURN(auto run, open_measurement(options.measurement));
  PPSIM_ASSIGN_OR_RETURN(auto algorithms, RunAlgorithms::open(options.measurement.device));
  algorithms.give_to(run);
  run.deadline_s = options.deadline_s;
  PPSIM_RETURN_IF_ERROR(check_outputs({options.points, options.costs_out}));
  PPSIM_ASSIGN_OR_RETURN(const auto programs, calibration_programs(options));
  PPSIM_ASSIGN_OR_RETURN(const auto model,
                         transformer_of(options.measurement.model, options.measurement.device,
                                        programs.front().pipeline().stages()));
  PPSIM_RETURN_IF_ERROR(open_device(options));
  const auto held = hold_devices(run, max_ranks(programs));
  const int sharing = ranks_per_device(options, max_ranks(programs));
  PPSIM_ASSIGN_OR_RETURN(auto measured, profile_shared(programs, *model, run, sharing));
  Expected<void> written;
  if (!options.costs_out.empty()) written = write_text_file(options.costs_out, to_json(measured.tables));
  const double calibration_s = watch.seconds();
  Setting setting{options, *model, run, std::move(measured.tables)};
  if (sharing > 1 || (!options.alone && measured.slowdowns.load.exponent > 0))
    setting.slowdowns = std::move(measured.slowdowns);
  Predictions outcome = run_points(setting, watch, output);
  if (!written) outcome.written = written;
  if (auto kept = algorithms.keep(); !kept) outcome.written = kept;
  if (!outcome.written) std::cerr << "ppsim: " << outcome.written.error() << '\n';
  if (!output.json) {
    print_text(outcome);
    for (const std::string& kernels : outcome.kernels()) std::cout << algorithms.added_to(kernels) << '\n';
    return outcome.code();
  }
  Json object = outcome_json(outcome);
  object["calibration_seconds"] = calibration_s;
  object["seconds"] = watch.seconds();
  if (!outcome.written) object["error"] = error_json(outcome.written.error());
  output.print(object);
  return outcome.code();
}

Expected<int> run(PredictOptions options, const Output& output) {
  PPSIM_ASSIGN_OR_RETURN(const auto tied, is_tied(options.measurement.model));
  options.measurement.input.tied = tied;
  return predict_all(options, output);
}

void add_options(Command& command, PredictOptions& options) {
  command.add_option("INPUTS", options.inputs, "FILEs or NAMEs to predict and run, 1f1b:microbatches=8")
      .required();
  add_measurement_options(
      command, options.measurement,
      "of each run: their median is compared; of a calibration the first one does not count");
  command
      .add_option("--calibrate", options.calibrate,
                  "FILE or NAME, once for each: what is run first, to measure every action")
      .one_value_each()
      .show_default();
  command.add_flag("--undisturbed", options.alone,
                   "simulate as if ranks that share a device did not slow each other down, nor their load "
                   "lower its clock");
  command
      .add_option("--deadline", options.deadline_s,
                  "seconds that a step may take; default: 10 x what is predicted and 30 s")
      .check(positive());
  command.add_option("--time-limit", options.time_limit_s, "seconds after which no other run starts")
      .check(positive());
  command
      .add_option("--points", options.points,
                  "FILE to which a line of JSON is added for each run when it is over")
      .check(side_file({".jsonl", ".json"}));
  command.add_option("--costs-out", options.costs_out, "measured costs and sizes, as --costs reads them")
      .check(side_file({".json"}));
}

}  // namespace

void add_predict(Command& program) {
  auto options = std::make_shared<PredictOptions>();
  Command command = program.add_subcommand(
      "predict", "measure every action once, then run schedules: how far is the simulation off?");
  add_options(command, *options);
  command.runs([options](const Output& output) { return run(*options, output); });
}

}  // namespace ppsim::cli
