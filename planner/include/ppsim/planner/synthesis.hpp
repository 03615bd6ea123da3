#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ppsim/core/ir/schedule.hpp"
#include "ppsim/planner/costs/costs.hpp"
#include "ppsim/verifier/synthesis/synthesis.hpp"

namespace ppsim::planner {

/// The schedules of the registry with the stages of the request on the same ranks: what a synthesis starts
/// from. Those that follow costs or a limit follow the request's. Where the request has I and W, a B counts
/// as both, and an overlapped pair as its parts one after the other. Some may be over a limit in bytes.
[[nodiscard]] std::vector<Schedule> known_schedules(const SynthesisRequest& request);

/// A schedule of a pipeline that runs everything, in some order, in the form of the request.
[[nodiscard]] Expected<Schedule> any_schedule(const SynthesisRequest& request);

/// How a user names a placement.
struct PlacementWords {
  std::string placement;  ///< "", "loop", "v", "free", or the rank of each stage, "0,1,1,0"
  std::optional<int>
      chunks;  ///< stages per rank if the placement lists no ranks; by default 2, without a placement 1
  int ranks = 1;
};

/// The rank of each stage; empty for one stage on each rank, in their order. Requires: not "free".
/// Errors: bad_argument for another word, chunks below 1 or beside a list of ranks, more than 100,000 stages.
[[nodiscard]] Expected<std::vector<RankId>> parse_placement(const PlacementWords& words);

/// Takes costs and the limit of memory for its placement into a request.
using BindPlacement = std::function<Expected<void>(SynthesisRequest&)>;

/// The best schedule with the placement that `words` name, or with the best placement where they leave it
/// free. The search starts from known schedules. Errors: those of parse_placement, bind and
/// verifier::synthesize.
[[nodiscard]] Expected<SynthesisAnswer> synthesize_placed(const PlacementWords& words,
                                                          SynthesisRequest request,
                                                          const BindPlacement& bind);

/// The memory limit of a synthesis, as a user gives it: one of both, or none with a model, whose GPU
/// has a memory.
struct LimitWords {
  std::optional<int> activations;
  std::string bytes;  ///< of a rank, as parse_size reads it
};

/// The stages of a request on their ranks. Errors: those of make_chain.
[[nodiscard]] Expected<Pipeline> synthesis_pipeline(const SynthesisRequest& request);

/// Takes costs, sizes and the limit of memory into a request. `bound` is for its synthesis_pipeline.
/// Errors: bad_argument for both limits or none, and for bytes without sizes; those of parse_size.
[[nodiscard]] Expected<void> bind_request(CostBinding bound, const LimitWords& limit,
                                          SynthesisRequest& request);

}  // namespace ppsim::planner

namespace ppsim {
using planner::any_schedule;
using planner::bind_request;
using planner::BindPlacement;
using planner::known_schedules;
using planner::LimitWords;
using planner::parse_placement;
using planner::PlacementWords;
using planner::synthesis_pipeline;
using planner::synthesize_placed;
}  // namespace ppsim
