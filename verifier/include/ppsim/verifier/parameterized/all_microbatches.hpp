#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ppsim/core/ir/capabilities.hpp"
#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/ir/repetition.hpp"
#include "ppsim/core/ir/tables.hpp"
#include "ppsim/core/ir/units.hpp"
#include "ppsim/verifier/limit_reasons.hpp"
#include "ppsim/verifier/parameterized/periodic.hpp"
#include "ppsim/verifier/verify.hpp"

namespace ppsim::verifier {

/// The Program of a schedule for a number of microbatches; bad_argument where the schedule refuses it.
using ProgramFor = std::function<Expected<Program>(int microbatches)>;

/// Properties to verify for every number of microbatches, and the assumptions.
struct AllMicrobatchesOptions {
  /// Of kAllMicrobatchesProperties; empty: all, memory where `sizes` are. A limit asks for memory, too.
  std::vector<Property> properties;
  TransportCapabilities capabilities;  ///< default: rendezvous, no residency limit
  std::optional<SizeTable> sizes;
  std::optional<Bytes> memory_limit;  ///< per rank
  double timeout_s = 60;              ///< seconds for everything; properties undecided by then are unknown
  std::size_t state_limit = 200'000;  ///< states that exploring a residency limit of one Program may visit
  /// Instructions of the Programs that may be generated and compared; a quarter of it for more comparisons
  /// than are needed to recognise the schedule.
  std::size_t sample_limit = 16'000'000;
  std::optional<Bytes> memory_budget = {};  ///< of the verifier; a property that needs more is unknown
  /// Called with every query; Z3 is asked for deadlock freedom as well where a ranking decides it.
  QuerySink queries = {};
  /// Knowledge of the Programs beyond those that are generated. None: no property is proved for all
  /// numbers, since any larger one may be another Program.
  Repetitions repetitions = {};
};
/// The options of verify() for one Program that apply to all numbers of microbatches, too.
[[nodiscard]] AllMicrobatchesOptions asked_of_all(const VerifyOptions& of_one);

/// The properties that can be decided for every number of microbatches.
[[nodiscard]] bool has_all_microbatches_method(Property property);

/// A periodic program, and the numbers at which it was compared with the generated schedule.
struct Family {
  PeriodicProgram program;
  std::vector<int> agrees;  ///< numbers of microbatches, ascending; from the first member on each one tried
  friend bool operator==(const Family&, const Family&) = default;
};

/// The Program that each number of microbatches was assumed to have.
struct Coverage {
  std::vector<Family> families;        ///< at most one for each remainder of the period
  std::vector<int> alone;              ///< numbers that are no members; each is decided by itself, ascending
  std::vector<int> refused;            ///< numbers tried that the schedule refuses, ascending
  std::vector<std::string> uncovered;  ///< remainders without a periodic program, with the reason
  int differs_at = 0;   ///< of those: a number that is no member of the program that was found; 0: none
  int compared_to = 0;  ///< up to it each number is one of `agrees`, `alone` or `refused`
  /// From this number on, those that were not compared are members because the schedule is known to repeat;
  /// empty: this is known of none.
  std::optional<int> repeats_from;
  friend bool operator==(const Coverage&, const Coverage&) = default;
};
/// "m = 8, 12, 16, ... by the periodic program that equals the generated one at m = 8, 12, 16, 20".
[[nodiscard]] std::vector<std::string> to_lines(const Coverage& coverage);

/// An upper bound on a rank's memory for m = period * k + any remainder: bytes.at(k).
struct MemoryForAll {
  RankId rank;
  AffineCount bytes;
  int period = 1;
  int reached_at = 0;  ///< number of microbatches that needs as much in some timing
  friend bool operator==(const MemoryForAll&, const MemoryForAll&) = default;
};

/// The answer to one property for every number of microbatches.
struct AllMicrobatchesResult {
  Property property = Property::deadlock_free;
  Verdict verdict;
  int microbatches = 0;  ///< refuted: the smallest number that breaks it, unless a note says otherwise; its
                         ///< Program has the counterexample
  int holds_up_to = 0;   ///< unknown for want of Programs only: it holds for each number up to this one
  std::string method;    ///< periodic, ranking, smt, or that of verify for single numbers
  double seconds = 0;
  std::vector<std::string> notes;
};

struct AllMicrobatchesReport {
  Coverage coverage;
  std::vector<AllMicrobatchesResult> results;  ///< in the order of the registry
  std::vector<MemoryForAll> memory;            ///< per rank, where the memory property was decided

  [[nodiscard]] const AllMicrobatchesResult* find(Property property) const;
  [[nodiscard]] bool proved(Property property) const;
};

/// Decides each property for every number of microbatches that the schedule accepts.
///
/// Small numbers are generated and looked at one by one. For all others the Program is recognised as a
/// periodic one, and the proofs are about that: matched by comparing the two ends of each series, deadlock
/// freedom by a ranking of one period's events, memory and residency limits by integer counters with a
/// symbolic number of periods (Z3). That every number is a member rests on `options.repetitions`, which is
/// compared with the generated Programs: without it a property is proved only up to some number, and the
/// verdict is unknown. A counterexample is always one of a generated Program.
/// Errors: bad_argument where the schedule accepts no number of microbatches that was tried, or a property
/// without such a method is asked for; any other error of `program_for`.
[[nodiscard]] Expected<AllMicrobatchesReport> verify_all_microbatches(
    const ProgramFor& program_for, const AllMicrobatchesOptions& options = {});

}  // namespace ppsim::verifier

namespace ppsim {
using verifier::AllMicrobatchesOptions;
using verifier::AllMicrobatchesReport;
using verifier::AllMicrobatchesResult;
using verifier::asked_of_all;
using verifier::Coverage;
using verifier::Family;
using verifier::has_all_microbatches_method;
using verifier::MemoryForAll;
using verifier::ProgramFor;
using verifier::to_lines;
using verifier::verify_all_microbatches;
}  // namespace ppsim
