#pragma once

#include <memory>
#include <optional>
#include <string>

#include "command.hpp"
#include "options/backend_choice.hpp"
#include "options/disturbance_options.hpp"
#include "options/model_options.hpp"
#include "ppsim/core/certificate/certificate.hpp"
#include "ppsim/gpu_backend/executor/execute.hpp"
#include "ppsim/planner/effects/disturbed_steps.hpp"

namespace ppsim::cli {

/// The options of `ppsim run`.
struct RunCommandOptions {
  InputOptions input;
  CostOptions costs;
  ModelOptions model;
  BackendChoice device;
  DisturbanceOptions disturbances;
  std::string certificate, trace, traces, report, costs_out, extras;
  std::string of_optimizer;  ///< an option that says how it updates
  bool unverified = false, compare = false, emit_sbatch = false, transport_given = false, seed_given = false;
  int steps = 3;
  std::optional<int> ranks_per_node;
  std::optional<double> deadline_s;
  std::optional<double> time_scale;
};

/// Whether actions take the time that COSTS say, and not what they compute.
[[nodiscard]] bool takes_given_times(const RunCommandOptions& options);
/// Costs that predict what is measured, which those of --unit and --model do not for a CPU that takes the
/// time that it needs.
[[nodiscard]] bool has_given_costs(const RunCommandOptions& options);
[[nodiscard]] bool is_by_nccl(const BackendChoice& device);

/// Options that are of another backend than the one that was asked for.
/// Errors: bad_argument.
[[nodiscard]] Expected<void> check_run_options(const RunCommandOptions& options);

/// All that a run needs but the processes and the devices.
struct Prepared {
  Subject subject;
  AnalyzedProgram analyzed;  ///< the Program on the transport of the run
  std::unique_ptr<StageModel> model;
  std::optional<Certificate> certificate;
  RunOptions run;
  std::optional<DisturbedSteps> disturbed;
};
/// Errors: those of the options and of the files that they name.
[[nodiscard]] Expected<Prepared> prepare(const RunCommandOptions& options);

}  // namespace ppsim::cli
