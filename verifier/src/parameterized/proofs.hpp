#pragma once

#include <string>
#include <vector>

#include "ppsim/verifier/parameterized/all_microbatches.hpp"
#include "properties/properties.hpp"
#include "source.hpp"

namespace ppsim::verifier {

/// The answer of a proof about one family.
struct FamilyAnswer {
  Verdict verdict;  ///< refuted: by the Program for `microbatches`, of all members the smallest
  int microbatches = 0;
  std::string method;
  std::vector<std::string> notes = {};
};

/// The input that all proofs about one schedule share.
struct AllQuestion {
  Source& source;
  const AllMicrobatchesOptions& options;
  const Deadline& deadline;

  [[nodiscard]] Limits limits() const { return {deadline, options.memory_budget}; }
};

/// verify's report on one property of one Program, within the limits of the question.
[[nodiscard]] VerifyReport verify_one(const AllQuestion& question, Property property, const Program& program);

/// The two ends of each message, and the members of each collective, name the same for every k. That these
/// are the ends that meet rests on deadlock freedom under rendezvous: both ends of a channel are on one queue
/// each, so two messages that are sent in another order than they are received wait for each other.
[[nodiscard]] FamilyAnswer matched_for_all(const AllQuestion& question, const PeriodicProgram& family);

/// By a ranking; without one, or under a residency limit, by Z3 over all states for every k at once.
/// Those states are more than a run with a residency limit can reach, so only what verify refutes for a
/// single number of microbatches is refuted.
[[nodiscard]] FamilyAnswer deadlock_free_for_all(const AllQuestion& question, const PeriodicProgram& family);

/// Asks Z3 as well what a ranking has proved, and adds a note. Order: changes answer.notes only.
void cross_check_for_all(const AllQuestion& question, const PeriodicProgram& family, FamilyAnswer& answer);

/// Sizes, per rank what is not worth a closer look (empty: nothing), and the waits that always occur.
struct RankSizes {
  const SizeTable& sizes;
  const std::vector<Bytes>& enough;
  TransportCapabilities waits;
};

/// The worst case of one number of microbatches on each rank, or where all tensors together are within
/// `enough`, these; nothing where it is not known. Errors: throws LimitReached.
[[nodiscard]] std::optional<std::vector<Bytes>> worst_cases(const Limits& limits, const Program& program,
                                                            const RankSizes& of_ranks);

/// Per rank a bound on the worst case that some member reaches. Where long members are no worse than shorter
/// ones, those decide (find_cutoff). Else it is guessed from members, proved by Z3 over all states for
/// every k at once, raised by what refutes it. Order: replaces `bounds`.
/// Requires: deadlock freedom is proved.
[[nodiscard]] FamilyAnswer memory_for_all(const AllQuestion& question, const PeriodicProgram& family,
                                          std::vector<MemoryForAll>& bounds);

}  // namespace ppsim::verifier
