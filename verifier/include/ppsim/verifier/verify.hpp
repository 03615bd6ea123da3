#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ppsim/core/certificate/certificate.hpp"
#include "ppsim/core/execution/analyzed_program.hpp"
#include "ppsim/core/execution/well_formed.hpp"
#include "ppsim/core/ir/capabilities.hpp"
#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/ir/tables.hpp"
#include "ppsim/core/ir/units.hpp"
#include "ppsim/verifier/deadlock/deadlock.hpp"
#include "ppsim/verifier/limit_reasons.hpp"
#include "ppsim/verifier/memory/memory.hpp"
#include "ppsim/verifier/property.hpp"
#include "ppsim/verifier/solver/solver_query.hpp"

namespace ppsim::verifier {

/// Bounds on durations: every action may take any, independently, from `least` to `most` of its class.
struct CostBounds {
  CostTable least;
  CostTable most;
  friend bool operator==(const CostBounds&, const CostBounds&) = default;
};

struct PropertyResult;
/// Is told of each property when it is decided, in the order of deciding.
using PropertySink = std::function<void(const PropertyResult&)>;

/// The properties to verify, and the assumptions.
struct VerifyOptions {
  /// Empty: those by default, and memory where `sizes` are given. A limit asks for its property, too.
  std::vector<Property> properties;
  TransportCapabilities capabilities;  ///< default: rendezvous, no residency limit
  std::optional<SizeTable> sizes;
  std::optional<Bytes> memory_limit;  ///< per rank
  std::optional<CostBounds> costs;
  std::optional<Nanoseconds> makespan_limit;
  double timeout_s = 60;              ///< seconds for everything; properties undecided by then are unknown
  bool cross_check = false;           ///< deadlock by Z3 as well, where the Program is small enough
  std::size_t state_limit = 200'000;  ///< states that exploring a residency limit may visit
  std::optional<Bytes> memory_budget = {};  ///< of the verifier; a property that needs more is unknown
  /// Called with the query of the cross-check, which is made if a sink is set.
  QuerySink queries = {};
  PropertySink decided = {};
  /// Polled, from other threads too: true to give up; properties undecided by then are unknown.
  std::function<bool()> stopped = {};
};

/// A rank that can need more memory than the limit, with a run that gets there.
struct MemoryOverrun {
  RankId rank;
  Bytes bytes = 0;
  Bytes limit = 0;
  std::vector<Tensor> live;
  FiringOrder firing_order;
  friend bool operator==(const MemoryOverrun&, const MemoryOverrun&) = default;
};

/// An instruction while it takes time. A transfer or collective counts for all of its ends.
struct TimedInstruction {
  InstructionId instruction;
  Nanoseconds start = 0;
  Nanoseconds end = 0;
  friend bool operator==(const TimedInstruction&, const TimedInstruction&) = default;
};

/// Costs under which a step takes longer than the limit.
struct LateEnd {
  CostTable costs;
  Nanoseconds makespan = 0;
  Nanoseconds limit = 0;
  std::vector<TimedInstruction> critical_path;  ///< in time order; the durations add up to the makespan
  friend bool operator==(const LateEnd&, const LateEnd&) = default;
};

/// Broken rules, a state in which nothing moves (under a residency limit one of those that can be reached), a
/// moment of too much memory, or a step that takes too long.
using Counterexample = std::variant<std::vector<Violation>, Deadlock, MemoryOverrun, LateEnd, ResidencyHang>;

struct Proved {
  friend bool operator==(const Proved&, const Proved&) = default;
};
struct Refuted {
  Counterexample counterexample;
  friend bool operator==(const Refuted&, const Refuted&) = default;
};
struct Unknown {
  std::string reason;
  friend bool operator==(const Unknown&, const Unknown&) = default;
};
using Verdict = std::variant<Proved, Refuted, Unknown>;

/// "proved", "refuted" or "unknown".
[[nodiscard]] std::string_view verdict_name(const Verdict& verdict);

/// The answer to one property.
struct PropertyResult {
  Property property = Property::well_formed;
  Verdict verdict;
  std::string method;  ///< static, graph, flow, exploration or longest path
  double seconds = 0;
  std::vector<std::string> notes;  ///< "safe only by buffering: ...", "also by Z3"
};

/// Between which a step takes, over all costs within their bounds; both are reached.
struct MakespanRange {
  Nanoseconds least = 0;
  Nanoseconds most = 0;
  friend bool operator==(const MakespanRange&, const MakespanRange&) = default;
};

/// All answers, in the order of the registry.
struct VerifyReport {
  std::vector<PropertyResult> results;
  std::vector<WorstCase> memory;  ///< per rank, as far as it is known
  std::optional<MakespanRange> makespan;
  double preparation_seconds = 0;  ///< for the execution graph and a run order, which the properties share

  [[nodiscard]] const PropertyResult* find(Property property) const;
  [[nodiscard]] bool proved(Property property) const;
  [[nodiscard]] bool all_proved() const;
};

/// Decides each property. A mismatch is static and leaves the Program without a meaning: properties of its
/// runs are unknown then, with that reason; so is memory where deadlock freedom is not proved.
/// Requires: analyzed for options.capabilities.
[[nodiscard]] VerifyReport verify(const AnalyzedProgram& analyzed, const VerifyOptions& options);
[[nodiscard]] VerifyReport verify(const Program& program, const VerifyOptions& options = {});

/// A counterexample in lines of text.
[[nodiscard]] std::vector<std::string> explain(const Program& program, const Counterexample& counterexample);

/// A tensor in words: "saved_for_weight of stage 0, microbatch 3".
[[nodiscard]] std::string tensor_text(const Tensor& tensor);

/// Packs what `report` proved of `program` under `options` so that check_certificate can follow it.
/// Errors: refused when well_formed, matched or deadlock_free is not proved, when tensor_use or memory was
/// asked for and is not, or when deadlock freedom rests on exploration.
[[nodiscard]] Expected<Certificate> make_certificate(const AnalyzedProgram& analyzed,
                                                     const VerifyOptions& options,
                                                     const VerifyReport& report);

}  // namespace ppsim::verifier

namespace ppsim {
using verifier::CostBounds;
using verifier::Counterexample;
using verifier::explain;
using verifier::LateEnd;
using verifier::make_certificate;
using verifier::MakespanRange;
using verifier::MemoryOverrun;
using verifier::PropertyResult;
using verifier::PropertySink;
using verifier::Proved;
using verifier::Refuted;
using verifier::tensor_text;
using verifier::TimedInstruction;
using verifier::Unknown;
using verifier::Verdict;
using verifier::verdict_name;
using verifier::verify;
using verifier::VerifyOptions;
using verifier::VerifyReport;
}  // namespace ppsim
