#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/units.hpp"
#include "ppsim/core/lowering/memory_saving.hpp"
#include "ppsim/workload/constants.hpp"
#include "ppsim/workload/layout.hpp"
#include "ppsim/workload/model.hpp"

namespace ppsim::planner {

/// Data type of the matrix products of a measured run.
enum class Precision : std::uint8_t { fp16, bf16, fp8, mxfp8, nvfp4 };
[[nodiscard]] std::string_view precision_name(Precision precision);

/// A training run as its source describes it. Counts are those of the whole run.
struct RunDescription {
  ModelDescription model;
  std::string cluster;  ///< of cluster_from_name
  int gpus = 1;
  Precision precision = Precision::bf16;
  int global_batch_size = 1;
  int microbatch_size = 1;
  std::int64_t sequence = 0;
  int tensor = 1;
  int pipeline = 1;
  int chunks = 1;  ///< stages of a rank: virtual pipeline parallelism
  int context = 1;
  int expert = 1;
  int fsdp = 0;                           ///< GPUs over which parameters are sharded, 0: they are not
  std::string schedule = "1f1b";          ///< of registered_schedules()
  std::optional<Recompute> recompute;     ///< nothing: the source does not say
  std::optional<bool> sequence_parallel;  ///< nothing: as the stack does it
  std::string layout;                     ///< Megatron's string; empty: usual_layout
  std::string stack;                      ///< of stack_presets(), or a file that ends in .json

  [[nodiscard]] int data() const { return gpus / (tensor * pipeline * context); }
  [[nodiscard]] bool is_moe() const { return model.experts > 0; }
  friend bool operator==(const RunDescription&, const RunDescription&) = default;
};

/// 1F1B of which the times of every stage are measured. Times are of one microbatch.
struct StageRun {
  std::vector<Nanoseconds> forward;   ///< of each rank
  std::vector<Nanoseconds> backward;  ///< of each rank
  int microbatches = 1;
  Bytes boundary = 0;           ///< of the tensor that a stage passes on
  std::int64_t parameters = 0;  ///< of the largest stage
  std::string gpu;              ///< of gpu_presets()
  friend bool operator==(const StageRun&, const StageRun&) = default;
};

/// The reason why a row cannot be simulated.
struct NotRun {
  std::string reason;
  friend bool operator==(const NotRun&, const NotRun&) = default;
};

/// The files that are read, told apart by their columns.
enum class MeasurementKind : std::uint8_t {
  published,
  one_node,
  megatron_bridge,
  vtrain,
  llm_foundry,
  stage_times,
};

/// Allocated device memory.
struct MeasuredMemory {
  std::optional<int> rank;  ///< pipeline rank, the largest of its GPUs; nothing: the largest of all GPUs
  double bytes = 0;
  friend bool operator==(const MeasuredMemory&, const MeasuredMemory&) = default;
};

/// One row of a file.
struct MeasuredRow {
  MeasurementKind kind = MeasurementKind::published;
  std::string file;
  int line = 0;
  std::string source;
  std::string label;  ///< tells the row from others of its source
  std::variant<RunDescription, StageRun, NotRun> run;
  std::optional<double> seconds;  ///< of one step
  std::vector<MeasuredMemory> memory;
  friend bool operator==(const MeasuredRow&, const MeasuredRow&) = default;
};

/// Whether constants may be fitted to the runs of a source.
[[nodiscard]] constexpr bool may_be_fitted_to(MeasurementKind kind) {
  return kind != MeasurementKind::llm_foundry;
}

/// Reads a file of measurements: CSV with a header in any order, which may have more columns than are needed.
/// A row that lacks what a simulation needs is a NotRun. Errors: bad_file naming row and column, for an
/// unknown header, a file without rows, a value that is no number above 0 where there has to be one, an
/// unknown stack.
[[nodiscard]] Expected<std::vector<MeasuredRow>> read_measurements(std::string_view text,
                                                                   const std::string& file);

/// The default number of layers of each stage: the same on each; else Megatron's, which counts embedding and
/// loss as a layer each; else full stages from the front.
[[nodiscard]] PipelineLayout usual_layout(std::int64_t layers, int stages);

/// One simulated step.
struct SimulatedRun {
  double step_s = 0;
  std::vector<Bytes> allocated;  ///< peak of each pipeline rank; empty: not known
  friend bool operator==(const SimulatedRun&, const SimulatedRun&) = default;
};

/// The effects that a simulated run has beyond what its parts take alone. No number is fitted: links are
/// those of the cluster, and kernels of NCCL hold a multiprocessor for each of its channels.
struct RunEffects {
  bool links = false;        ///< all that GPUs send shares their NVLink and NICs
  bool transfers = false;    ///< products run without the multiprocessors of pending transfers
  bool collectives = false;  ///< and without those of collectives beside them; replaces `exposed_share`

  [[nodiscard]] bool any() const { return links || transfers || collectives; }
  friend bool operator==(const RunEffects&, const RunEffects&) = default;
};

/// Simulates the run with the costs of --model. Links and transfers each add to the step the time that they
/// add alone. Errors: those of the costs and the schedule, and bad_argument for a run that they do not model.
[[nodiscard]] Expected<SimulatedRun> simulate_run(const RunDescription& run,
                                                  const FittedConstants& constants = {},
                                                  const RunEffects& effects = {});

/// Simulates 1F1B with the times given. A transfer holds up the computation of both ranks, and the optimizer
/// of the largest stage ends the step.
[[nodiscard]] Expected<SimulatedRun> simulate_run(const StageRun& run);

/// The distance of simulations from measurements. Errors are (simulated - measured) / measured, in percent.
struct ErrorStatistics {
  int n = 0;
  double mean_percent = 0;  ///< of the absolute errors
  double bias_percent = 0;  ///< mean of the errors
  double median_percent = 0;
  double p95_percent = 0;  ///< the smallest that 95 of 100 absolute errors do not exceed
  double max_percent = 0;
  double within_5_percent = 0;  ///< share of the rows
  double within_10_percent = 0;
  friend bool operator==(const ErrorStatistics&, const ErrorStatistics&) = default;
};
/// All 0 of no errors.
[[nodiscard]] ErrorStatistics error_statistics(const std::vector<double>& errors_percent);

/// A measured figure beside the simulated one. Units: seconds or bytes.
struct Comparison {
  std::size_t row = 0;      ///< of Validation::rows
  std::optional<int> rank;  ///< of memory, as MeasuredMemory has it
  double measured = 0;
  std::optional<double> simulated;
  std::string reason;  ///< where nothing is simulated

  [[nodiscard]] double error_percent() const { return (*simulated / measured - 1) * 100; }
  friend bool operator==(const Comparison&, const Comparison&) = default;
};

struct ErrorGroup {
  std::string name;
  ErrorStatistics errors;
  friend bool operator==(const ErrorGroup&, const ErrorGroup&) = default;
};

/// Comparisons of one quantity, by row and by group. A group without a simulated row is left out.
struct Agreement {
  std::vector<Comparison> comparisons;
  std::vector<ErrorGroup> groups;
  ErrorStatistics all;
};

/// Runs of one source, simulated with constants that were fitted without it.
struct SourceLeftOut {
  std::string source;
  int fitted_to = 0;  ///< rows of other sources
  FittedConstants constants;
  ErrorStatistics errors;
  friend bool operator==(const SourceLeftOut&, const SourceLeftOut&) = default;
};

/// The fitted constants, fitted again to the rows of dense models on A100 and H100: other GPUs and mixtures
/// of experts are predicted, never fitted to.
struct Refit {
  int fitted_to = 0;          ///< rows
  FittedConstants constants;  ///< of all of these rows
  std::vector<SourceLeftOut> sources;
  ErrorStatistics dense;  ///< of dense runs, each with constants fitted without its source
};

struct Validation {
  std::vector<MeasuredRow> rows;
  Agreement steps;
  Agreement memory;
  std::vector<Constant> constants;  ///< that the simulations rest on
  RunEffects effects;               ///< that the steps of models were simulated with
  std::optional<Refit> refit;       ///< of add_refit
};

/// Simulates every row that can be.
[[nodiscard]] Validation validate(std::vector<MeasuredRow> rows, const RunEffects& effects = {});

/// Fits the constants again, to all rows and to those of all sources but one, for each source of dense runs.
/// Adds the group "dense leave-one-source-out" to the steps.
/// Order: deterministic; of each kind of file the mean of |log(simulated / measured)| times the root of its
/// number of rows is lowered over a grid of values, one constant at a time in steps that get smaller, until
/// no step lowers the sum.
void add_refit(Validation& validation);

}  // namespace ppsim::planner

namespace ppsim {
using planner::add_refit;
using planner::Agreement;
using planner::Comparison;
using planner::error_statistics;
using planner::ErrorGroup;
using planner::ErrorStatistics;
using planner::MeasuredMemory;
using planner::MeasuredRow;
using planner::MeasurementKind;
using planner::NotRun;
using planner::Precision;
using planner::precision_name;
using planner::read_measurements;
using planner::Refit;
using planner::RunDescription;
using planner::RunEffects;
using planner::simulate_run;
using planner::SimulatedRun;
using planner::SourceLeftOut;
using planner::StageRun;
using planner::usual_layout;
using planner::validate;
using planner::Validation;
}  // namespace ppsim
