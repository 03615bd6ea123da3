#include "run_preparation.hpp"

#include <algorithm>
#include <utility>

#include "options/transport_choice.hpp"
#include "ppsim/core/io/json.hpp"
#include "ppsim/gpu_backend/executor/backends.hpp"
#include "ppsim/gpu_backend/stage_model/null_model.hpp"
#include "ppsim/planner/evaluate.hpp"
#include "ppsim/planner/files.hpp"
#include "ppsim/planner/verified_run.hpp"
#include "run_output.hpp"

namespace ppsim::cli {
namespace {

constexpr int kKeptTraces = 100;  // of long runs, whose memory stays as it is

/// The model that runs: on a CPU a transformer, emulated nothing but the sizes of its tensors.
Expected<std::unique_ptr<StageModel>> model_of(const RunCommandOptions& options, const Subject& subject,
                                               const Pipeline& pipeline) {
  if (options.device.backend == "emulated") return std::make_unique<NullModel>(subject.costs->tables.sizes);
  return transformer_of(options.model, options.device, pipeline.stages() / subject.replicas,
                        subject.costs ? subject.costs->slice_lengths : std::vector<int>());
}

Expected<Subject> subject_to_run(const RunCommandOptions& options) {
  InputOptions input = options.input;
  PPSIM_ASSIGN_OR_RETURN(const bool tied, is_tied(options.model));
  input.tied = tied;
  auto subject = read_subject(input, options.costs);
  if (!subject || !takes_given_times(options)) return subject;
  if (!subject->costs)
    return tl::unexpected(needs_costs(options.disturbances.any() ? "a run with jitter" : "an emulated run"));
  PPSIM_ASSIGN_OR_RETURN(auto scaled,
                         scaled_costs(subject->costs->tables.costs, options.time_scale.value_or(1)));
  subject->costs->tables.costs = std::move(scaled);
  return subject;
}

Expected<RunOptions> run_options(const RunCommandOptions& options, const Subject& subject) {
  RunOptions run;
  if (options.device.backend == "emulated") run.backend = EmulatedOptions{subject.costs->tables.costs};
  if (options.device.backend == "cuda") run.backend = cuda_options(options.device);
  if (options.device.backend == "emulated") run.memory_limit = subject.costs->memory_limit;
  run.unverified = options.unverified;
  run.steps = options.steps;
  run.kept_traces = kKeptTraces;
  run.deadline_s = options.deadline_s;
  PPSIM_ASSIGN_OR_RETURN(run.capabilities, buffers_from_text(options.device.buffers));
  run.capabilities = capabilities_of(run);
  return run;
}

Expected<std::optional<Certificate>> certificate_of(const RunCommandOptions& options) {
  if (options.certificate.empty()) return std::optional<Certificate>();
  PPSIM_ASSIGN_OR_RETURN(const auto text, read_text_file(options.certificate));
  return certificate_from_json(text, options.certificate).map([](Certificate c) {
    return std::optional<Certificate>(std::move(c));
  });
}

/// The Program of the input, with the actions of --with where it is a Schedule.
Expected<Program> program_to_run(const RunCommandOptions& options, const Subject& subject) {
  if (options.extras.empty()) return default_program(subject);
  PPSIM_RETURN_IF_ERROR(check_is_schedule(subject.ir, "--with"));
  LoweringOptions lowering = default_lowering(subject);
  PPSIM_RETURN_IF_ERROR(add_extras(lowering, options.extras, subject.ir));
  return lowered_program(subject, lowering);
}

/// The steps of the Program with the disturbances that are asked for, where any are.
Expected<std::optional<DisturbedSteps>> disturbed_steps(const RunCommandOptions& options,
                                                        const Subject& subject, const Program& program,
                                                        const TransportCapabilities& capabilities) {
  if (!options.disturbances.any()) return std::optional<DisturbedSteps>();
  PPSIM_ASSIGN_OR_RETURN(const auto disturbances, disturbances_of(options.disturbances));
  PPSIM_ASSIGN_OR_RETURN(const auto step, evaluate(subject.name, program, *subject.costs, capabilities));
  return DisturbedSteps::make(step, disturbances, options.disturbances.seed).map([](DisturbedSteps steps) {
    return std::optional<DisturbedSteps>(std::move(steps));
  });
}

/// Sets the deadline where nobody gives one and costs say what a step takes. What computes may take longer
/// than its jitter, and so has as long as without costs at least.
Expected<void> set_deadline(const RunCommandOptions& options, Prepared& prepared) {
  const CostTable* const costs = prepared.subject.cost_table();
  if (!has_given_costs(options) || costs == nullptr || options.deadline_s) return {};
  DeadlineRule& rule = prepared.run.deadline_rule;
  if (prepared.disturbed) {
    const double deadline_s = default_deadline_s(std::ranges::max(prepared.disturbed->steps(options.steps)));
    const bool computes = options.device.backend == "cpu";
    rule.first_s = computes ? std::max(rule.first_s, deadline_s) : deadline_s;
    rule.more_s = std::max(rule.more_s, deadline_s);
    rule.times = computes ? rule.times : 0;
    return {};
  }
  PPSIM_ASSIGN_OR_RETURN(rule.first_s, default_deadline_s(prepared.analyzed, *costs));
  rule.more_s = rule.first_s;
  rule.times = 0;
  return {};
}

}  // namespace

bool takes_given_times(const RunCommandOptions& options) {
  return options.device.backend == "emulated" || options.disturbances.any();
}

bool has_given_costs(const RunCommandOptions& options) {
  return takes_given_times(options) || !options.costs.costs.empty();
}

bool is_by_nccl(const BackendChoice& device) {
  return device.backend == "cuda" && cuda_options(device).transport == CudaTransport::nccl;
}

Expected<void> check_run_options(const RunCommandOptions& options) {
  PPSIM_RETURN_IF_ERROR(check_choice(options.device));
  const bool emulated = options.device.backend == "emulated";
  if (emulated && options.model != ModelOptions()) {
    return make_error(ErrorCode::bad_argument, "an emulated run computes nothing and has no transformer",
                      {.found = "--transformer, --arithmetic, --optimizer or --learning-rate",
                       .expected = "--backend cpu or cuda"});
  }
  if (options.disturbances.any() && options.device.backend == "cuda")
    return make_error(ErrorCode::bad_argument, "jitter is not for actions that take the time that they need",
                      {.found = "--backend cuda", .expected = "--backend emulated or cpu"});
  // A seed alone is refused, with the words of ppsim jitter.
  if (options.seed_given && !options.disturbances.any())
    return disturbances_of(options.disturbances).map([](const Disturbances&) {});
  if (!options.time_scale || takes_given_times(options)) return {};
  return make_error(ErrorCode::bad_argument, "--time-scale stretches what COSTS say of an emulated run",
                    {.found = "--backend " + options.device.backend, .expected = "--backend emulated"});
}

Expected<Prepared> prepare(const RunCommandOptions& options) {
  PPSIM_ASSIGN_OR_RETURN(auto subject, subject_to_run(options));
  PPSIM_ASSIGN_OR_RETURN(auto program, program_to_run(options, subject));
  PPSIM_RETURN_IF_ERROR(check_updates(options.of_optimizer, program));
  PPSIM_ASSIGN_OR_RETURN(auto model, model_of(options, subject, program.pipeline()));
  PPSIM_ASSIGN_OR_RETURN(auto certificate, certificate_of(options));
  PPSIM_ASSIGN_OR_RETURN(auto run, run_options(options, subject));
  PPSIM_ASSIGN_OR_RETURN(auto disturbed, disturbed_steps(options, subject, program, run.capabilities));
  AnalyzedProgram analyzed(std::move(program), run.capabilities);
  Prepared prepared{std::move(subject),     std::move(analyzed), std::move(model),
                    std::move(certificate), std::move(run),      std::move(disturbed)};
  PPSIM_RETURN_IF_ERROR(set_deadline(options, prepared));
  return prepared;
}

}  // namespace ppsim::cli
