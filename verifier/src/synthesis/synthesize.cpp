#include <algorithm>

#include "ppsim/verifier/synthesis/synthesis.hpp"
#include "synthesis/lowered_order.hpp"
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

}  // namespace

Expected<SynthesisAnswer> synthesize(const SynthesisRequest& request) {
  const SteadyClock::time_point start = SteadyClock::now();
  PPSIM_RETURN_IF_ERROR(synthesis::check_request(request));
  if (std::string reason = synthesis::no_room(request); !reason.empty()) return NoSchedule{std::move(reason)};
  if (std::string reason = synthesis::too_many_live(request); !reason.empty())
    return NoSchedule{std::move(reason)};
  synthesis::Search search(request, after(start, search_time(request.timeout_s)));
  search.run();
  if (search.incumbent().empty()) return NoSchedule{search.open()};
  const Schedule& schedule = search.incumbent().schedule();
  Synthesized result{.schedule = schedule,
                     .value = search.incumbent().value(),
                     .lower_bound = search.lower_bound(),
                     .method = search.incumbent().method(),
                     .bound_method = search.bound_method(),
                     .queries = search.queries(),
                     .steps = search.steps(),
                     .program = synthesis::lowered(schedule, request.costs)};
  if (!result.optimal()) result.open = search.open();
  synthesis::LimitProof proof = synthesis::proof_of(
      result.program, request, std::max(kMinProofTime, request.timeout_s - seconds_since(start)));
  result.certificate = std::move(proof.certificate);
  result.worst_bytes = proof.worst;
  result.seconds = seconds_since(start);
  return result;
}

}  // namespace ppsim::verifier
