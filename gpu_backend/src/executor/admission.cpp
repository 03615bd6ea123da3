#include "admission.hpp"

#include <array>
#include <string_view>

#include "backend.hpp"
#include "executor/gpu/gpu_admission.hpp"
#include "ppsim/core/execution/well_formed.hpp"
#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/ir/hash.hpp"
#include "ppsim/core/text/as_text.hpp"
#include "ppsim/core/text/nearest.hpp"
#include "ppsim/gpu_backend/executor/backends.hpp"
#include "process_group/agreement.hpp"

namespace ppsim::gpu_backend {
namespace {

Expected<void> check_options(const RunOptions& options) {
  if (options.steps < 1) return make_error(ErrorCode::bad_argument, "a run has at least 1 step");
  if (options.kept_traces < 0)
    return make_error(ErrorCode::bad_argument, "a run keeps 0 traces (all) or more");
  if (options.deadline_s && !(*options.deadline_s >= 0))
    return make_error(ErrorCode::bad_argument, "a deadline is not negative");
  if (!(options.clip_norm > 0))
    return make_error(ErrorCode::bad_argument, "gradients are clipped to a norm above 0");
  return {};
}

/// Checks that the backend can run the Program as it is asked to, and has the model.
Expected<void> check_backend(const Program& program, const StageModel& model, const RunOptions& options) {
  if (std::holds_alternative<CudaOptions>(options.backend)) {
    if (options.action_times)
      return make_error(ErrorCode::bad_argument, "actions on a GPU take the time that they need");
    if (model.on_gpu() == nullptr)
      return make_error(ErrorCode::bad_argument, "this model has no kernels for a GPU");
    return check_gpu_options(program, options);
  }
  PPSIM_RETURN_IF_ERROR(check_in_process(options.capabilities));
  return arithmetic_of(model).map([](const CpuStageModel*) {});
}

/// The model as the backend computes it. Requires: check_backend() has found nothing.
const StageModel& computed_by(const BackendOptions& backend, const StageModel& model) {
  if (std::holds_alternative<CudaOptions>(backend)) return *model.on_gpu();
  return *model.on_cpu();
}

Expected<void> check_matches(const AnalyzedProgram& analyzed) {
  if (analyzed.is_matched()) return {};
  std::string text;
  for (const Violation& violation : match_violations(analyzed.program(), analyzed.graph()))
    text += (text.empty() ? "" : "\n") + violation.message;
  return make_error(ErrorCode::ill_formed, text);
}

Expected<void> refuse(const std::string& why, ErrorPlace place = {}) {
  return make_error(ErrorCode::refused,
                    why + "; verify it with these sizes and this transport, or run it unverified",
                    std::move(place));
}

/// The properties that a run relies on. A bound on memory is not among them: the pool is planned from the
/// Program.
constexpr auto kRelied =
    std::to_array<std::string_view>({"well_formed", "matched", "deadlock_free", "tensor_use"});

Expected<void> check_fits(const Certificate& certificate, const SizeTable& sizes) {
  if (const std::string hash = sizes_hash(sizes);
      !certificate.memory.empty() && certificate.sizes_hash != hash)
    return refuse("the certificate bounds the memory of other tensor sizes",
                  {.found = certificate.sizes_hash, .expected = hash});
  for (const std::string_view property : kRelied) {
    const std::string name(property);
    if (!certificate.claims(property))
      return refuse("the certificate does not cover " + name,
                    {.found = joined(certificate.properties), .expected = name});
  }
  return {};
}

Expected<void> check_proof(const PreparedRun& run, const Certificate& certificate) {
  if (const std::string hash = program_hash(run.program()); certificate.program_hash != hash) {
    return make_error(ErrorCode::refused,
                      "the certificate is of another program; verify this one, or run it unverified",
                      {.found = certificate.program_hash, .expected = hash});
  }
  PPSIM_RETURN_IF_ERROR(check_fits(certificate, run.sizes()));
  PPSIM_RETURN_IF_ERROR(check_certificate(certificate, run.program(), &run.sizes()));
  const TransportCapabilities& transport = run.analyzed().capabilities();
  if (check_carries_over(transport, certificate, run.program(), &run.sizes())) return {};
  return refuse("the certificate is for another transport",
                {.found = as_text(certificate.capabilities), .expected = as_text(transport)});
}

}  // namespace

Expected<PreparedRun> PreparedRun::make(const AnalyzedProgram& analyzed, const StageModel& model,
                                        const RunOptions& options, Expected<void> checked) {
  PPSIM_CHECK(analyzed.capabilities() == capabilities_of(options), "a Program analyzed on another transport");
  PreparedRun run(analyzed, model, options);
  if (checked) checked = run.check();
  PPSIM_RETURN_IF_ERROR(agree(checked, {run.program(), run.sizes(), model.identity()}, options));
  PPSIM_ASSIGN_OR_RETURN(run.here_, ranks_here(run.program(), options));
  return run;
}

Expected<void> PreparedRun::check() {
  PPSIM_RETURN_IF_ERROR(check_options(options()));
  PPSIM_RETURN_IF_ERROR(check_backend(program(), model(), options()));
  const StageModel& computed = computed_by(options().backend, model());
  PPSIM_RETURN_IF_ERROR(computed.check(program().pipeline()));
  PPSIM_RETURN_IF_ERROR(computed.check_actions(program()));
  sizes_ = computed.sizes(program().pipeline());
  return {};
}

Expected<void> admit(const PreparedRun& run, const Certificate* certificate) {
  const RunOptions& options = run.options();
  PPSIM_RETURN_IF_ERROR(check_matches(run.analyzed()));
  const auto* const cuda = std::get_if<CudaOptions>(&options.backend);
  if (cuda != nullptr && cuda->graphs && !run.analyzed().order().complete)
    return make_error(ErrorCode::bad_argument, "a program that cannot finish cannot run as a graph");
  if (options.unverified) return {};
  if (certificate == nullptr) return refuse("the program has no certificate");
  return check_proof(run, *certificate).map_error([&](Error error) {
    error.place.file = options.certificate_file;
    return error;
  });
}

}  // namespace ppsim::gpu_backend
