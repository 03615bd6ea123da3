#include "ppsim/planner/verified_run.hpp"
#include "ppsim/gpu_backend/executor/backends.hpp"

#include <algorithm>
#include <cmath>

#include "ppsim/core/io/json.hpp"
#include "ppsim/core/ir/inference.hpp"
#include "ppsim/core/ir/transports.hpp"
#include "ppsim/gpu_backend/stage_model/gpu_stage_model.hpp"
#include "ppsim/gpu_backend/stage_model/reference.hpp"
#include "ppsim/planner/effects/disturbed_steps.hpp"
#include "ppsim/simulator/engine/simulate.hpp"
#include "ppsim/verifier/verify.hpp"
#include "require_well_formed.hpp"
#include "step_prediction.hpp"

namespace ppsim::planner {
namespace {

Error refutation(const Program& program, const PropertyResult& result) {
  const std::string name(property_name(result.property));
  if (const auto* unknown = std::get_if<Unknown>(&result.verdict)) {
    return {ErrorCode::refused, name + " is not proved: " + unknown->reason};
  }
  std::string text = name + " is refuted";
  for (const std::string& line : explain(program, std::get<Refuted>(result.verdict).counterexample))
    text += "\n" + line;
  return {result.property == Property::deadlock_free ? ErrorCode::deadlock : ErrorCode::ill_formed, text};
}

/// The transport of a run, of which several have the same capabilities; empty for graphs over NCCL, which
/// keep no order of launches.
std::string_view name_of_transport(const RunOptions& run) {
  const std::string_view launches = name_of(capabilities_of(run));
  if (launches != name_of(rendezvous())) return launches;
  if (std::holds_alternative<CudaOptions>(run.backend)) return "copy";
  return run.processes == nullptr ? "in-process" : "mpi";
}

Expected<Certificate> prove(const PreparedRun& run, const VerifiedRunOptions& options) {
  VerifyOptions asked;
  asked.properties = {Property::well_formed, Property::matched, Property::deadlock_free, Property::tensor_use,
                      Property::memory};
  asked.capabilities = run.analyzed().capabilities();
  asked.sizes = run.sizes();
  asked.timeout_s = options.verify_timeout_s;
  const VerifyReport report = verify(run.analyzed(), asked);
  for (const PropertyResult& result : report.results) {
    if (!std::holds_alternative<Proved>(result.verdict))
      return tl::unexpected(refutation(run.program(), result));
  }
  auto certificate = make_certificate(run.analyzed(), asked, report);
  if (certificate) certificate->transport = name_of_transport(options.run);
  return certificate;
}

/// On several processes one proves for all, and each checks what it gets before it runs.
Expected<Certificate> prove_together(const PreparedRun& run, const VerifiedRunOptions& options) {
  Bootstrap* const processes = options.run.processes;
  if (processes == nullptr) return prove(run, options);
  std::string proof;
  if (processes->process() == 0) {
    const std::jthread at_work = processes->at_work();  // which rightly takes long
    const auto certificate = prove(run, options);
    if (certificate) {
      proof = to_json(*certificate);
    } else {
      processes->stop(certificate.error());
    }
  }
  const auto all = processes->allgather(proof, timeout_of(options.run));
  if (all) return certificate_from_json(all->front(), "the certificate of process 0");
  static_cast<void>(processes->resume());  // the error tells; a process that is gone stays so
  return tl::unexpected(all.error());
}

/// True where gradients of the backend have the size of those of the reference on the CPU.
bool comparable_gradients(const Pipeline& pipeline, const StageModel& model, const BackendOptions& backend) {
  const SizeTable on_backend = sizes_on(backend, model, pipeline);
  const SizeTable on_cpu = model.sizes(pipeline);
  for (int b = 0; b < pipeline.blocks(); ++b) {
    const SizeClass gradients{.kind = TensorKind::gradients, .subject = b};
    if (on_backend(gradients) != on_cpu(gradients)) return false;
  }
  return true;
}

/// Checks that there can be a reference on the CPU, and gradients to compare with it.
Expected<void> check_comparable(const Program& program, const StageModel& model,
                                const BackendOptions& backend) {
  if (std::holds_alternative<EmulatedOptions>(backend))
    return make_error(ErrorCode::bad_argument, "an emulated run has no gradients to compare");
  PPSIM_ASSIGN_OR_RETURN(const auto cpu, arithmetic_of(model));
  PPSIM_RETURN_IF_ERROR(cpu->check(program.pipeline()));
  if (!comparable_gradients(program.pipeline(), model, backend))
    return make_error(ErrorCode::bad_argument,
                      "the kernels lay out gradients otherwise than the CPU: compare in exact arithmetic");
  if (!trains(program))
    return make_error(ErrorCode::bad_argument, "no backward, and so no gradients to compare");
  return {};
}

struct ComparedRun {
  const RunOptions& options;
  VerifiedRun& result;
};

Expected<void> compare_gradients(const Program& program, const CpuStageModel& model, const ComparedRun& run) {
  const Pipeline& pipeline = program.pipeline();
  const ReferenceOptions how = reference_options(program, run.options);
  PPSIM_ASSIGN_OR_RETURN(const auto reference, reference_gradients(pipeline, model, how));
  VerifiedRun& result = run.result;
  result.max_abs_difference = max_gradient_difference(model, result.run.gradients, reference);
  result.largest_gradient = max_gradient_difference(model, {}, reference);
  result.gradients =
      judge_gradients(*result.max_abs_difference, *result.largest_gradient, model.unit_roundoff());
  const bool updated = pipeline.asynchronous() || (how.update && how.steps > 1);
  const bool rounds = model.unit_roundoff() > 0 && std::isfinite(*result.max_abs_difference);
  if (*result.gradients == GradientVerdict::wrong && updated && rounds)
    result.gradients = GradientVerdict::unjudged;
  return {};
}

}  // namespace

Expected<double> default_deadline_s(const AnalyzedProgram& analyzed, const CostTable& costs) {
  PPSIM_ASSIGN_OR_RETURN(const auto trace, simulate_beside_transfers(analyzed, {costs, CostTable()}));
  if (!trace) return 0.0;
  Nanoseconds makespan = 0;
  for (const Span& span : trace->spans) makespan = std::max(makespan, span.end.time);
  return default_deadline_s(makespan);
}

double default_deadline_s(Nanoseconds step) {
  constexpr double kSlower = 10;  // times what the costs say
  constexpr double kMin = 30;     // seconds
  return kMin + kSlower * static_cast<double>(step) / 1e9;
}

GradientVerdict judge_gradients(double difference, double largest, double unit_roundoff) {
  constexpr double kTerms = 1 << 14;  // of a sum: microbatches, tokens, width
  if (!std::isfinite(largest)) return GradientVerdict::unjudged;
  if (difference == 0) return GradientVerdict::equal;
  return std::isfinite(difference) && difference <= kTerms * unit_roundoff * largest
             ? GradientVerdict::rounded
             : GradientVerdict::wrong;
}

Expected<VerifiedRun> verify_then_run(const AnalyzedProgram& analyzed, const StageModel& model,
                                      const VerifiedRunOptions& options) {
  const Program& program = analyzed.program();
  VerifiedRun result;
  RunOptions run = options.run;
  run.capabilities = capabilities_of(run);
  if (options.disturbed != nullptr) {
    run.action_times = [steps = *options.disturbed](int step) {
      return steps.action_times(static_cast<std::uint64_t>(step));
    };
  }
  const auto comparable = options.compare ? check_comparable(program, model, run.backend) : Expected<void>();
  PPSIM_ASSIGN_OR_RETURN(const auto prepared, PreparedRun::make(analyzed, model, run, comparable));
  if (run.unverified) {
    PPSIM_RETURN_IF_ERROR(require_well_formed(analyzed));
  }
  if (run.certificate != nullptr) {
    result.certificate = *run.certificate;
  } else if (!run.unverified) {
    PPSIM_ASSIGN_OR_RETURN(result.certificate, prove_together(prepared, options));
  }
  PPSIM_ASSIGN_OR_RETURN(result.run, execute(prepared, result.certificate ? &*result.certificate : nullptr));
  if (result.certificate) {
    for (const MemoryWitness& witness : result.certificate->memory) {
      result.proved_bytes.resize(as_size(program.pipeline().ranks()));
      result.proved_bytes[witness.rank.index()] = witness.bytes;
    }
  }
  const bool follows = run.processes != nullptr && run.processes->process() > 0;
  if (follows || result.run.outcome == RunOutcome::deadlock) return result;
  PPSIM_RETURN_IF_ERROR(predict_steps(analyzed, options, result));
  if (!result.run.gradients.empty()) result.gradients_hash = gradients_hash(result.run.gradients);
  if (options.compare) {
    PPSIM_RETURN_IF_ERROR(compare_gradients(program, *model.on_cpu(), {run, result}));
  }
  return result;
}

Expected<VerifiedRun> verify_then_run(const Program& program, const StageModel& model,
                                      const VerifiedRunOptions& options) {
  return verify_then_run(AnalyzedProgram(program, capabilities_of(options.run)), model, options);
}

}  // namespace ppsim::planner
