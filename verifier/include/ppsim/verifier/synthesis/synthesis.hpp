#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ppsim/core/certificate/certificate.hpp"
#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/ir/schedule.hpp"
#include "ppsim/core/ir/tables.hpp"
#include "ppsim/core/ir/units.hpp"
#include "ppsim/verifier/solver/solver_query.hpp"

namespace ppsim::verifier {

/// The quantities that a synthesised schedule minimises, both under earliest_times.
enum class Objective : std::uint8_t {
  makespan,  ///< first start to last end over all ranks
  span,      ///< the longest rank's own first start to last end
};
[[nodiscard]] std::string_view objective_name(Objective objective);

/// Whether the backward pass is one action, B, or two, I and W.
enum class BackwardForm : std::uint8_t { split, fused };
/// The actions that a stage runs for each microbatch, in that order.
[[nodiscard]] std::vector<OpKind> phases_of(BackwardForm form);

/// The incumbent and the bound of a search in progress.
struct SynthesisProgress {
  const Schedule& schedule;     ///< the best so far
  Nanoseconds value = 0;        ///< of the objective
  Nanoseconds lower_bound = 0;  ///< proved: no schedule is below
};
/// Called when a schedule is better than those before, or a bound higher.
using SynthesisSink = std::function<void(const SynthesisProgress&)>;

/// A limit of the bytes that a rank needs in the worst of all timings of the Program that lower() makes of a
/// schedule in the order `timed`: parameters, activations, gradients, buffers of messages.
struct ByteLimit {
  SizeTable sizes;
  Bytes per_rank = 0;
};

/// Which schedule to look for: on a chain of stages with one slice.
struct SynthesisRequest {
  int ranks = 1;
  int microbatches = 1;
  /// The rank of each stage. Empty: stage s on rank s.
  std::vector<RankId> placement = {};
  /// (Stage, microbatch) whose F has started and whose W (or B) has not ended, on each rank at any time.
  int activation_limit = 1;
  /// Replaces the limit of activations.
  std::optional<ByteLimit> bytes = {};
  BackwardForm backward = BackwardForm::split;
  Objective objective = Objective::makespan;
  CostTable costs;  ///< per stage or for all; F, I and W (or B) take time
  /// Each rank's order of F and of I, or B, is that of this schedule; only its W are placed.
  std::optional<Schedule> kept_order = {};
  std::vector<Schedule> known;  ///< to start from; those of another chain or over the limit are ignored
  double timeout_s = 60;        ///< seconds for everything
  /// Orders that the search from neighbour to neighbour may try; empty: as many as the time allows. Its
  /// result depends only on these and the seed, where the time suffices.
  std::optional<std::int64_t> max_steps = {};
  std::uint64_t seed = 1;
  std::optional<Bytes> memory_budget = {};  ///< of Z3
  QuerySink queries = {};                   ///< called with every query
  SynthesisSink progress = {};
  std::function<bool()> stopped = {};  ///< asked again and again, from other threads too, whether to give up
};

/// The rank of each stage. Requires: a request without broken counts.
[[nodiscard]] std::vector<RankId> placement_of(const SynthesisRequest& request);

/// A request that leaves it to the search on which ranks the stages go: so many on each. Placements that
/// differ by the numbers of the ranks alone count as one, with ranks numbered in the order of their first
/// stages.
struct FreePlacement {
  SynthesisRequest request;  ///< without a placement
  int chunks = 2;            ///< stages on each rank
  /// Placements to begin with, each with so many stages on every rank; of equally good ones the first is
  /// taken. Empty: stage s on rank s modulo ranks.
  std::vector<std::vector<RankId>> first = {};
  /// Takes costs, limits and known schedules for its placement into a request. What F, I and W (or B) of a
  /// stage take depends at most on whether the stages before and after it are on its rank. Not null.
  std::function<Expected<void>(SynthesisRequest&)> bind;
};

/// The best schedule that was found, and how good any schedule can be.
struct Synthesized {
  Schedule schedule;
  Nanoseconds value = 0;        ///< of the objective
  Nanoseconds lower_bound = 0;  ///< proved: no schedule is below
  std::string method;  ///< that found the schedule: known, greedy, walk, lists, lists and walk, repetend,
                       ///< rounded costs or time-indexed
  std::string bound_method;     ///< that proved the lower bound: relaxation, time-indexed or work
  std::string open;             ///< why it is not known to be optimal; empty when it is
  int queries = 0;              ///< put to Z3
  std::int64_t steps = 0;       ///< orders that were tried from neighbour to neighbour
  std::int64_t placements = 1;  ///< that were searched
  double seconds = 0;
  Program program;  ///< the schedule, lowered in the order `timed`
  /// The need of the fullest rank in the worst timing, in bytes, or in activations where these are limited; 0
  /// where the time did not suffice.
  Bytes worst_bytes = 0;
  /// Proves that the program is well-formed, matched and free of deadlock, and that no rank needs more bytes
  /// than the limit, in every timing; a limit of activations counts one byte for those of a stage and a
  /// microbatch. Empty when there was no time for the proof.
  std::optional<Certificate> certificate;

  [[nodiscard]] bool optimal() const { return value == lower_bound; }
};

/// There is no schedule within the limit, or none was found.
struct NoSchedule {
  std::string reason;
  bool proved = false;  ///< that no schedule exists
  friend bool operator==(const NoSchedule&, const NoSchedule&) = default;
};
using SynthesisAnswer = std::variant<Synthesized, NoSchedule>;

/// The best order of the actions of a chain under a limit of memory. Which microbatch an action serves does
/// not matter, so each stage runs its F, its I and its W in the order of the microbatches; then N live ones
/// at most say that F(i) starts after the end of W(i - N). A relaxation bounds the objective from below. From
/// above come schedules that are known, lists, and a search from neighbour to neighbour of both; with one
/// stage on a rank also a periodic pattern with the warm-up and cool-down that fit it. Of activations Z3
/// decides bound after bound whether all actions fit. A schedule that was found has the value that
/// earliest_times gives it. Errors: bad_argument for counts or a timeout out of range, a placement that names
/// a rank that does not exist or leaves one empty, an action that takes no time, costs whose sum does not
/// fit, or an order to keep that is of another chain, does not run its microbatches in order, waits for
/// itself or leaves nothing open.
[[nodiscard]] Expected<SynthesisAnswer> synthesize(const SynthesisRequest& request);
/// The checks of a request that need neither costs nor known schedules.
[[nodiscard]] Expected<void> check_counts(const SynthesisRequest& request);
/// The same for all placements.
[[nodiscard]] Expected<void> check_counts(const FreePlacement& asked);

/// The best order and the best placement. Where there are at most 2,000 placements, each is searched and
/// bounded, the better ones longer, and with time left those whose bound is below the best schedule are
/// decided as synthesize() does; otherwise the search goes from placement to placement by exchanging two
/// stages, and the bound is the work of a rank in the mean, each stage with the least that it takes in any
/// placement. Errors: as synthesize(); those of `bind`; bad_argument for chunks below 1, for an order to
/// keep, and for costs that depend on the numbers of ranks.
[[nodiscard]] Expected<SynthesisAnswer> synthesize(const FreePlacement& asked);

/// The objective of a schedule. Errors: those of earliest_times.
[[nodiscard]] Expected<Nanoseconds> objective_of(const Schedule& schedule, const CostTable& costs,
                                                 Objective objective);

/// The most (stage, microbatch) whose F has started and whose W or B has not ended on one rank.
[[nodiscard]] int peak_live_microbatches(const Schedule& schedule);

}  // namespace ppsim::verifier

namespace ppsim {
using verifier::BackwardForm;
using verifier::ByteLimit;
using verifier::check_counts;
using verifier::FreePlacement;
using verifier::NoSchedule;
using verifier::Objective;
using verifier::objective_name;
using verifier::objective_of;
using verifier::peak_live_microbatches;
using verifier::SynthesisAnswer;
using verifier::SynthesisProgress;
using verifier::SynthesisRequest;
using verifier::SynthesisSink;
using verifier::synthesize;
using verifier::Synthesized;
}  // namespace ppsim
