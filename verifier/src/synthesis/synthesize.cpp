#include <algorithm>

#include "ppsim/core/ir/check.hpp"
#include "ppsim/verifier/synthesis/synthesis.hpp"
#include "synthesis/lowered_order.hpp"
#include "synthesis/placement_search.hpp"
#include "synthesis/search.hpp"

namespace ppsim::verifier {
namespace {

using SteadyClock = synthesis::Clock;

// Of the time, for the proof about what the search found: at least this share, and these seconds of a longer
// time.
constexpr double kProofShare = 0.1;
constexpr double kProofTime = 0.5;
constexpr double kMinProofTime = 0.1;  // seconds
constexpr int kMaxStages = 1'000;      // of a free placement

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

/// Proves that the Program keeps to the limit, in what is left of the time.
void prove(const SynthesisRequest& request, SteadyClock::time_point start, Synthesized& result) {
  synthesis::LimitProof proof = synthesis::proof_of(
      result.program, request, std::max(kMinProofTime, request.timeout_s - seconds_since(start)));
  result.certificate = std::move(proof.certificate);
  result.worst_bytes = proof.worst;
  result.seconds = seconds_since(start);
}

Expected<void> check_first(const FreePlacement& asked) {
  for (const auto& placement : asked.first) {
    std::vector<int> stages(as_size(asked.request.ranks), 0);
    for (const RankId rank : placement) {
      if (rank.value() >= 0 && rank.value() < asked.request.ranks) ++stages[rank.index()];
    }
    if (placement.size() == stages.size() * as_size(asked.chunks) &&
        std::ranges::all_of(stages, [&](int count) { return count == asked.chunks; }))
      continue;
    return make_error(ErrorCode::bad_argument, "cannot begin with a placement of other chunks",
                      {.found = std::to_string(placement.size()) + " stages",
                       .expected = std::to_string(asked.chunks) + " on each of " +
                                   std::to_string(stages.size()) + " ranks"});
  }
  return {};
}

}  // namespace

std::vector<OpKind> phases_of(BackwardForm form) {
  if (form == BackwardForm::fused) return {OpKind::forward, OpKind::backward};
  return {OpKind::forward, OpKind::backward_input, OpKind::backward_weight};
}

std::vector<RankId> placement_of(const SynthesisRequest& request) {
  if (!request.placement.empty()) return request.placement;
  std::vector<RankId> placement;
  for (int r = 0; r < request.ranks; ++r) placement.emplace_back(r);
  return placement;
}

Expected<void> check_counts(const FreePlacement& asked) {
  if (asked.request.kept_order) {
    return make_error(ErrorCode::bad_argument, "an order can be kept where stage s is on rank s",
                      {.found = "a free placement", .expected = "none"});
  }
  if (asked.request.ranks < 1 || asked.chunks < 1 || asked.chunks > kMaxStages / asked.request.ranks) {
    return make_error(ErrorCode::bad_argument, "cannot place the stages",
                      {.found = std::to_string(asked.request.ranks) + " ranks with " +
                                std::to_string(asked.chunks) + " stages each",
                       .expected = "1 or more, and at most " + std::to_string(kMaxStages) + " stages"});
  }
  PPSIM_RETURN_IF_ERROR(check_first(asked));
  SynthesisRequest request = asked.request;
  request.placement = synthesis::loop_placement(request.ranks, asked.chunks);
  return check_counts(request);
}

Expected<SynthesisAnswer> synthesize(const SynthesisRequest& request) {
  const SteadyClock::time_point start = SteadyClock::now();
  PPSIM_RETURN_IF_ERROR(synthesis::check_request(request));
  if (std::string reason = synthesis::no_room(request); !reason.empty())
    return NoSchedule{std::move(reason), true};
  if (std::string reason = synthesis::too_many_live(request); !reason.empty())
    return NoSchedule{std::move(reason), true};
  synthesis::Search search(request, after(start, search_time(request.timeout_s)));
  search.run();
  if (search.incumbent().empty()) return NoSchedule{search.open()};
  Synthesized result{.schedule = search.incumbent().schedule(),
                     .value = search.incumbent().value(),
                     .lower_bound = search.lower_bound(),
                     .method = search.incumbent().method(),
                     .bound_method = search.bound_method(),
                     .queries = search.queries(),
                     .steps = search.steps(),
                     .program = synthesis::lowered(search.incumbent().schedule(), request.costs)};
  if (!result.optimal()) result.open = search.open();
  prove(request, start, result);
  return result;
}

Expected<SynthesisAnswer> synthesize(const FreePlacement& asked) {
  const SteadyClock::time_point start = SteadyClock::now();
  PPSIM_CHECK(asked.bind != nullptr, "a free placement without costs");
  PPSIM_RETURN_IF_ERROR(check_counts(asked));
  synthesis::PlacementSearch search(asked, after(start, search_time(asked.request.timeout_s)));
  PPSIM_RETURN_IF_ERROR(search.run());
  const synthesis::Candidate* best = search.best();
  if (best == nullptr) return search.none();
  const auto [bound, bound_method] = search.lower_bound();
  Synthesized result{.schedule = *best->schedule,
                     .value = best->value,
                     .lower_bound = bound,
                     .method = best->method,
                     .bound_method = bound_method,
                     .open = search.open(),
                     .queries = search.queries(),
                     .steps = search.steps(),
                     .placements = search.placements(),
                     .program = synthesis::lowered(*best->schedule, best->request.costs)};
  prove(best->request, start, result);
  return result;
}

}  // namespace ppsim::verifier
