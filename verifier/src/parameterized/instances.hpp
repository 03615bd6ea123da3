#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "ppsim/core/execution/execution_graph.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/verifier/parameterized/periodic.hpp"

namespace ppsim::verifier {

/// The key that an instruction shares with the others of its series.
using SeriesKey = std::array<std::int32_t, 10>;

/// Which series stands for which instructions. A key is one of key_of; its part is left out where it names
/// all instructions that differ in their microbatch only.
class SeriesTable {
 public:
  /// How many series such instructions are in turn. Requires: part 0.
  void set_split(const SeriesKey& key, int split) { split_[key] = split; }
  [[nodiscard]] int split(const SeriesKey& key) const;
  /// The series of a key, created if it is missing.
  int add(const SeriesKey& key);
  /// -1: none.
  [[nodiscard]] int find(const SeriesKey& key) const;
  [[nodiscard]] int size() const { return static_cast<int>(number_.size()); }
  [[nodiscard]] const std::map<SeriesKey, int>& numbers() const { return number_; }

 private:
  std::map<SeriesKey, int> number_;
  std::map<SeriesKey, int> split_;
};

/// The key of an instruction. Requires: one action, or the two of an overlap.
[[nodiscard]] SeriesKey key_of(RankId rank, std::span<const Action> actions, int part);

/// The instructions of one Program as instances of series.
struct Instances {
  std::vector<int> series;                            ///< per instruction; -1: of none
  std::vector<std::int32_t> index;                    ///< per instruction: which instance
  std::vector<std::vector<InstructionId>> of_series;  ///< in order
  std::vector<int> lost;                              ///< instructions whose key the table does not have

  [[nodiscard]] std::int64_t count(int number) const {
    const auto s = as_size(number);
    return s < of_series.size() ? static_cast<std::int64_t>(of_series[s].size()) : 0;
  }
};

/// How many instructions of a Program have each key, parts left out.
[[nodiscard]] std::map<SeriesKey, int> occurrences_of(const Program& program);

/// Numbers the instructions, with new series where `may_add`.
[[nodiscard]] Instances instances_of(const Program& program, const SeriesRule& rule, SeriesTable& table,
                                     bool may_add);

/// Which instructions of a rank are complete before another one starts, by the waits of that rank alone.
class LocalOrder {
 public:
  /// Requires: every predecessor stands earlier in its rank's list, each instruction is on one queue.
  LocalOrder(const Program& program, const ExecutionGraph& graph);

  /// Whether `first` completes before `second` starts, by waits within their rank.
  [[nodiscard]] bool precedes(InstructionId first, InstructionId second) const {
    return clock_[second.index() * tracks_ + track_[first.index()]] > position_[first.index()];
  }
  [[nodiscard]] std::size_t track(InstructionId id) const { return track_[id.index()]; }
  [[nodiscard]] std::int32_t position(InstructionId id) const { return position_[id.index()]; }

 private:
  std::size_t tracks_ = 0;              ///< of the rank that has most
  std::vector<std::uint32_t> track_;    ///< per instruction: queue among those of its rank
  std::vector<std::int32_t> position_;  ///< in its track
  std::vector<std::int32_t> clock_;     ///< [instruction][track]
};

/// Whether a Program is of the kind that can be followed for all microbatches.
/// Errors: refused with the reason.
[[nodiscard]] Expected<void> check_plain(const Program& program, const ExecutionGraph& graph);

}  // namespace ppsim::verifier
