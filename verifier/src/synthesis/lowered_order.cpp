#include "synthesis/lowered_order.hpp"

#include <algorithm>

#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/verifier/verify.hpp"

namespace ppsim::verifier::synthesis {
namespace {

constexpr Bytes kUnknownShare = 64;  // of a limit, by which a rank counts as above it where that is not known

}  // namespace

Program lowered(const Schedule& schedule, const CostTable& costs) {
  LoweringOptions options;
  options.order = IssueOrder::timed;
  auto program = lower(schedule, options, &costs);
  PPSIM_CHECK(program.has_value(), "a schedule that was timed can be lowered in that order");
  return *std::move(program);
}

LimitProof proof_of(const Program& program, const SynthesisRequest& request, double timeout_s) {
  VerifyOptions options;
  options.sizes = request.bytes ? request.bytes->sizes : activation_size_table(1);
  options.memory_limit = request.bytes ? request.bytes->per_rank : request.activation_limit;
  options.timeout_s = timeout_s;
  options.stopped = request.stopped;
  options.properties = {Property::well_formed, Property::matched, Property::deadlock_free, Property::memory};
  const AnalyzedProgram analyzed(program, options.capabilities);
  const VerifyReport report = verify(analyzed, options);
  for (const PropertyResult& result : report.results)
    PPSIM_CHECK(!std::holds_alternative<Refuted>(result.verdict), "a synthesised schedule is refuted");
  LimitProof proof;
  for (const WorstCase& worst : report.memory) proof.worst = std::max(proof.worst, worst.bytes);
  if (auto certificate = make_certificate(analyzed, options, report); certificate)
    proof.certificate = *std::move(certificate);
  return proof;
}

std::vector<Bytes> bytes_over(const Schedule& schedule, const SynthesisRequest& request) {
  VerifyOptions options;
  options.sizes = request.bytes->sizes;
  options.timeout_s = request.timeout_s;
  options.stopped = request.stopped;
  options.properties = {Property::memory};
  const Bytes limit = request.bytes->per_rank;
  std::vector<Bytes> over(as_size(request.ranks), limit / kUnknownShare + 1);
  for (const WorstCase& worst : verify(lowered(schedule, request.costs), options).memory)
    over[worst.rank.index()] = std::max<Bytes>(0, worst.bytes - limit);
  if (std::ranges::all_of(over, [](Bytes bytes) { return bytes == 0; })) over.clear();
  return over;
}

}  // namespace ppsim::verifier::synthesis
