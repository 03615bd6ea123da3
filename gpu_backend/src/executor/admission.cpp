#include "admission.hpp"

#include <array>
#include <string_view>

#include "ppsim/core/execution/well_formed.hpp"
#include "ppsim/core/ir/hash.hpp"
#include "ppsim/core/text/as_text.hpp"
#include "ppsim/core/text/nearest.hpp"

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

Expected<void> check_matches(const Program& program) {
  const std::vector<Violation> violations = match_violations(program);
  if (violations.empty()) return {};
  std::string text;
  for (const Violation& violation : violations) text += (text.empty() ? "" : "\n") + violation.message;
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

Expected<void> check_proof(const Program& program, const SizeTable& sizes, const RunOptions& options) {
  if (options.certificate == nullptr) return refuse("the program has no certificate");
  const Certificate& certificate = *options.certificate;
  if (const std::string hash = program_hash(program); certificate.program_hash != hash) {
    return make_error(ErrorCode::refused,
                      "the certificate is of another program; verify this one, or run it unverified",
                      {.found = certificate.program_hash, .expected = hash});
  }
  PPSIM_RETURN_IF_ERROR(check_fits(certificate, sizes));
  PPSIM_RETURN_IF_ERROR(check_certificate(certificate, program, &sizes));
  if (check_carries_over(options.capabilities, certificate, program, &sizes)) return {};
  return refuse("the certificate is for another transport",
                {.found = as_text(certificate.capabilities), .expected = as_text(options.capabilities)});
}

/// The same with the file of the certificate in what is wrong with it.
Expected<void> check_named_proof(const Program& program, const SizeTable& sizes, const RunOptions& options) {
  return check_proof(program, sizes, options).map_error([&](Error error) {
    error.place.file = options.certificate_file;
    return error;
  });
}

}  // namespace

Expected<void> admit(const Program& program, const SizeTable& sizes, const RunOptions& options) {
  PPSIM_RETURN_IF_ERROR(check_options(options));
  PPSIM_RETURN_IF_ERROR(check_matches(program));
  return options.unverified ? Expected<void>{} : check_named_proof(program, sizes, options);
}

}  // namespace ppsim::gpu_backend
