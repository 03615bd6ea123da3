#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "ppsim/verifier/parameterized/all_microbatches.hpp"
#include "properties/properties.hpp"

namespace ppsim::verifier {

/// The Programs of a schedule, generated when asked for and kept as long as they are few.
class Source {
 public:
  Source(const ProgramFor& program_for, std::size_t limit, const Deadline& deadline)
      : program_for_(program_for), deadline_(deadline), limit_(limit) {}

  /// nullptr: the schedule refuses this number, time is over, or failure() is set.
  [[nodiscard]] std::shared_ptr<const Program> get(int microbatches);
  /// Whether a Program of this number, by the size of the others, is within what may still be generated.
  [[nodiscard]] bool may_generate(int microbatches) const;
  /// Whether it is within the quarter of that which is for more comparisons than the least.
  [[nodiscard]] bool affords(int microbatches) const;
  /// The same as if no other had been generated: for numbers that a solver names.
  [[nodiscard]] bool is_in_reach(std::int64_t microbatches) const;
  [[nodiscard]] bool is_late() const { return deadline_.over(); }
  [[nodiscard]] const std::set<int>& refused() const { return refused_; }
  /// The first error that was no refusal.
  [[nodiscard]] const std::optional<Error>& failure() const { return failure_; }

 private:
  [[nodiscard]] bool fits(double microbatches, std::size_t limit) const;
  void keep(int microbatches, std::shared_ptr<const Program> program);

  const ProgramFor& program_for_;
  const Deadline& deadline_;
  std::size_t limit_;
  std::size_t used_ = 0;
  std::size_t kept_instructions_ = 0;
  double per_microbatch_ = 0;
  std::map<int, std::shared_ptr<const Program>> kept_;
  std::set<int> refused_;
  std::optional<Error> failure_;
};

/// Numbers of microbatches 1, 2, ... to try one by one: all up to where steady states of known schedules have
/// begun, or as many as a part of what may be generated allows.
[[nodiscard]] int dense_limit(Source& source, int ranks);

/// Whether the Programs for every `step`-th number up to this one are within what may still be generated.
[[nodiscard]] bool may_generate_all(const Source& source, int microbatches, int step);

/// The number from which a schedule over so many ranks runs in its steady state: its longest warm-up is
/// about 2p microbatches.
[[nodiscard]] constexpr int steady_from(int ranks) { return 2 * ranks + 4; }

/// How a schedule is to be recognised.
struct CoverageOptions {
  int ranks = 1;
  int dense = 1;             ///< numbers of microbatches to try one by one
  bool with_tensors = true;  ///< else only the order matters
  bool updates = false;      ///< between microbatches, so that there is less than one in each
  LaunchChain launches = {};
  std::optional<Repetition> repetition = {};
};

/// Recognises the schedule's Programs as periodic ones: for the period, of those that schedules have, which
/// covers most remainders.
[[nodiscard]] Coverage find_coverage(Source& source, const CoverageOptions& options);

}  // namespace ppsim::verifier
