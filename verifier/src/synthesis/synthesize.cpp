#include <algorithm>

#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/verifier/synthesis/synthesis.hpp"
#include "ppsim/verifier/verify.hpp"
#include "synthesis/search.hpp"

namespace ppsim::verifier {
namespace {

using SteadyClock = synthesis::Clock;

// Of the time, for the proof about what the search found: at least this share, and these seconds of a longer
// time.
constexpr double kProofShare = 0.1;
constexpr double kProofTime = 0.5;
constexpr double kMinProofTime = 0.1;  // seconds

double seconds_since(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

SteadyClock::time_point after(SteadyClock::time_point start, double seconds) {
  constexpr double kLongest = 1e8;  // a clock cannot tell later times
  return start + std::chrono::duration_cast<SteadyClock::duration>(
                     std::chrono::duration<double>(std::min(seconds, kLongest)));
}

double search_time(double timeout_s) {
  return std::min((1 - kProofShare) * timeout_s, std::max(timeout_s - kProofTime, timeout_s / 2));
}

Program lowered(const Schedule& schedule, const CostTable& costs) {
  LoweringOptions options;
  options.order = IssueOrder::timed;
  auto program = lower(schedule, options, &costs);
  PPSIM_CHECK(program.has_value(), "a schedule that was timed can be lowered in that order");
  return *std::move(program);
}

/// The proof that the Program runs within the limit in every timing, if there is time for it.
std::optional<Certificate> proof_of(const Program& program, const SynthesisRequest& request,
                                    double timeout_s) {
  VerifyOptions options;
  options.sizes = activation_size_table(1);
  options.memory_limit = request.activation_limit;
  options.timeout_s = timeout_s;
  options.stopped = request.stopped;
  options.properties = {Property::well_formed, Property::matched, Property::deadlock_free, Property::memory};
  const AnalyzedProgram analyzed(program, options.capabilities);
  const VerifyReport report = verify(analyzed, options);
  for (const PropertyResult& result : report.results)
    PPSIM_CHECK(!std::holds_alternative<Refuted>(result.verdict), "a synthesised schedule is refuted");
  auto certificate = make_certificate(analyzed, options, report);
  if (!certificate) return std::nullopt;
  return *std::move(certificate);
}

}  // namespace

Expected<SynthesisAnswer> synthesize(const SynthesisRequest& request) {
  const SteadyClock::time_point start = SteadyClock::now();
  PPSIM_RETURN_IF_ERROR(synthesis::check_request(request));
  if (request.activation_limit < 1) {
    return NoSchedule{
        "every rank holds the activations of a microbatch from its F to its W or B: at least 1 is "
        "needed, the limit is 0"};
  }
  if (std::string reason = synthesis::too_many_live(request); !reason.empty())
    return NoSchedule{std::move(reason)};
  synthesis::Search search(request, after(start, search_time(request.timeout_s)));
  search.run();
  const Schedule& schedule = search.incumbent().schedule();
  Synthesized result{.schedule = schedule,
                     .value = search.incumbent().value(),
                     .lower_bound = search.lower_bound(),
                     .method = search.incumbent().method(),
                     .bound_method = search.bound_method(),
                     .queries = search.queries(),
                     .program = lowered(schedule, request.costs)};
  if (!result.optimal()) result.open = search.open();
  result.certificate =
      proof_of(result.program, request, std::max(kMinProofTime, request.timeout_s - seconds_since(start)));
  result.seconds = seconds_since(start);
  return result;
}

}  // namespace ppsim::verifier
