#include "admission.hpp"

#include <array>
#include <string_view>

#include "ppsim/core/hash.hpp"
#include "ppsim/core/well_formed.hpp"

namespace ppsim {
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

/// Safety under rendezvous carries over to every number of credits, a bound on memory does not.
bool fits(const Certificate& certificate, const TransportCapabilities& transport) {
  if (certificate.capabilities_hash == capabilities_hash(transport)) return true;
  TransportCapabilities unbuffered = transport;
  unbuffered.credits.reset();
  return certificate.memory.empty() && certificate.capabilities_hash == capabilities_hash(unbuffered);
}

Expected<void> refuse(const std::string& why) {
  return make_error(ErrorCode::refused,
                    why + "; verify it with these sizes and this transport, or run it unverified");
}

/// What a run relies on. A bound on memory is its own matter: the pool is planned from the Program.
constexpr auto kRelied =
    std::to_array<std::string_view>({"well_formed", "matched", "deadlock_free", "tensor_use"});

Expected<void> check_proof(const Program& program, const SizeTable& sizes, const RunOptions& options) {
  if (options.certificate == nullptr) return refuse("the program has no certificate");
  const Certificate& certificate = *options.certificate;
  if (const std::string hash = program_hash(program); certificate.program_hash != hash) {
    return make_error(
        ErrorCode::refused, "the certificate is of another program; verify this one, or run it unverified",
        {.file = options.certificate_file, .found = certificate.program_hash, .expected = hash});
  }
  if (!certificate.memory.empty() && certificate.sizes_hash != sizes_hash(sizes)) {
    return refuse("the certificate bounds the memory of other tensor sizes");
  }
  for (const std::string_view property : kRelied) {
    if (!certificate.claims(property))
      return refuse("the certificate does not cover " + std::string(property));
  }
  if (!fits(certificate, options.capabilities)) return refuse("the certificate is for another transport");
  return check_certificate(certificate, program, &sizes);
}

}  // namespace

Expected<void> admit(const Program& program, const SizeTable& sizes, const RunOptions& options) {
  if (auto ok = check_options(options); !ok) return ok;
  if (auto ok = check_matches(program); !ok) return ok;
  return options.unverified ? Expected<void>{} : check_proof(program, sizes, options);
}

}  // namespace ppsim
