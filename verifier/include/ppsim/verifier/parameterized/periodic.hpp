#pragma once

#include <cstdint>
#include <vector>

#include "ppsim/core/ir/capabilities.hpp"
#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/ir/tables.hpp"

namespace ppsim::verifier {

/// How instructions become series. Those of a rank that differ in their microbatch only are as many series in
/// turn as a period adds of them, except the first `head` and the last `tail` of them, each a series of its
/// own. Their waits are those of a transport with these launches.
struct SeriesRule {
  int period = 1;  ///< microbatches after which everything repeats
  int head = 0;
  int tail = 0;
  LaunchChain launches = {};
  friend bool operator==(const SeriesRule&, const SeriesRule&) = default;
};

/// A number that depends on the number k of periods: constant + per_period * k.
struct AffineCount {
  std::int64_t constant = 0;
  std::int64_t per_period = 0;

  [[nodiscard]] std::int64_t at(std::int64_t k) const { return constant + per_period * k; }
  friend auto operator<=>(const AffineCount&, const AffineCount&) = default;
};

/// The same instruction of one rank over and over: instances 0, 1, 2, ... in the order of its queue.
struct Series {
  RankId rank;
  std::vector<Action> actions;          ///< one, or the two of an overlap; without their microbatches
  std::vector<AffineCount> microbatch;  ///< of each action in instance 0
  std::int64_t stride = 0;              ///< microbatches from one instance to the next
  AffineCount count;                    ///< instances
  int part = 0;                         ///< which of those that the rule makes of such instructions
  int split = 1;                        ///< how many of these take turns
  int event = -1;                       ///< into PeriodicProgram::events

  friend bool operator==(const Series&, const Series&) = default;
};

/// Instance i of `after` starts only when the first i + shift instances of `before`, as far as there are so
/// many, are complete. Both are of one rank.
struct SeriesWait {
  int before = 0;
  int after = 0;
  AffineCount shift;

  friend auto operator<=>(const SeriesWait&, const SeriesWait&) = default;
};

/// Tensors of one size class of a rank that series write and use alike: tensor i is written first by instance
/// shift + direction * i of a series (of whichever starts first, if there are several), and used last by such
/// an instance of others.
struct TensorSeries {
  struct Touch {
    int series = 0;
    AffineCount shift;
    int direction = 1;  ///< -1: the last tensor by the first instance
    friend auto operator<=>(const Touch&, const Touch&) = default;
  };
  SizeClass size_class;
  RankId rank;
  bool from_start = false;
  bool to_end = false;
  std::vector<Touch> writers;
  std::vector<Touch> users;
  AffineCount count;

  friend bool operator==(const TensorSeries&, const TensorSeries&) = default;
};

/// A Program for every number of microbatches m = period * k + remainder with k >= first: which instructions
/// there are, what each waits for, and which complete together (the two ends of a message, the members of a
/// collective). Instance i of an event is instance i of each of its series.
struct PeriodicProgram {
  int ranks = 1;
  SeriesRule rule;
  int remainder = 0;
  int first = 0;  ///< the smallest k
  std::vector<Series> series;
  std::vector<SeriesWait> waits;
  std::vector<std::vector<int>> events;  ///< their series
  /// The waits of an instance of `after` to end once it has started, whichever rank `before` is of; none
  /// where find_periodic made it.
  std::vector<SeriesWait> end_waits = {};
  bool with_tensors = true;  ///< whether they were followed
  std::vector<TensorSeries> tensors;

  [[nodiscard]] int microbatches(std::int64_t k) const {
    return static_cast<int>(rule.period * k) + remainder;
  }
  friend bool operator==(const PeriodicProgram&, const PeriodicProgram&) = default;
};

/// The periodic program that two Programs for k and k + 1 periods are members of, its tensors left out where
/// only the order matters.
/// Errors: refused, naming the first thing that does not repeat.
[[nodiscard]] Expected<PeriodicProgram> find_periodic(const Program& at_k, const Program& at_next,
                                                      const SeriesRule& rule, bool with_tensors = true);

/// Whether a Program is the member for its number of microbatches: the same instructions, every wait of it
/// one that the periodic program has, and the other way round.
/// Errors: refused, naming the first difference.
[[nodiscard]] Expected<void> check_member(const PeriodicProgram& family, const Program& program);

}  // namespace ppsim::verifier

namespace ppsim {
using verifier::AffineCount;
using verifier::check_member;
using verifier::find_periodic;
using verifier::PeriodicProgram;
using verifier::Series;
using verifier::SeriesRule;
using verifier::SeriesWait;
using verifier::TensorSeries;
}  // namespace ppsim
