#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ppsim/planner/effects/step_spread.hpp"

namespace ppsim::planner {

/// The inputs of sampling one Program, made once.
struct DisturbedItems {
  struct Source {
    FactorTable table;
    double correlation;
  };
  /// An item whose factor is drawn, numbered by its action: of a message its SEND, of a collective its first
  /// member. So the same is drawn on every transport.
  struct Draw {
    std::uint32_t item;
    std::uint32_t action;
    std::uint32_t source;   ///< into sources
    std::int32_t previous;  ///< the draw before it at its place; -1: none
  };

  PricedItems priced;
  std::vector<std::uint32_t> item_of;   ///< per action; 0, which takes no time, for one that has none
  std::vector<bool> keeps_busy;         ///< per item: whether it is computation, and not for padding
  std::vector<double> given;            ///< per item: the factor of its link, which is no rank's
  IdVector<RankId, double> slow_ranks;  ///< given factors
  std::vector<Source> sources;
  std::vector<Draw> draws;              ///< in issue order
  std::optional<FactorTable> of_ranks;  ///< drawn once a step
};

/// Errors: bad_argument for a rank or link that the Program does not have, a group that nothing is in, and
/// factors out of range.
/// Requires: `priced` of `analyzed`.
[[nodiscard]] Expected<DisturbedItems> disturbed_items(PricedItems priced, const AnalyzedProgram& analyzed,
                                                       const Disturbances& disturbances);

/// One sample after another, each by its number alone.
class Sampler {
 public:
  /// Requires: items that outlive it.
  Sampler(const DisturbedItems& made, std::uint64_t seed);

  void draw(std::uint64_t sample);

  [[nodiscard]] const IdVector<RankId, double>& rank_factors() const { return ranks_; }
  void set_rank_factor(RankId rank, double factor) { ranks_[rank] = factor; }

  /// Of the sample that was drawn last: what an item takes, and the step, with the time that each rank
  /// computes added to `busy`.
  /// Errors: throws Overflow.
  [[nodiscard]] Nanoseconds cost(std::size_t item) const;
  [[nodiscard]] Nanoseconds step(IdVector<RankId, Nanoseconds>* busy);
  /// Of the last step(): without what follows the pipeline.
  [[nodiscard]] Nanoseconds pipeline() const { return last_end(made_.priced.pipeline_ends); }

 private:
  [[nodiscard]] Nanoseconds last_end(const std::vector<std::uint32_t>& items) const;

  const DisturbedItems& made_;
  std::uint64_t seed_;
  std::vector<double> normals_;  ///< per draw
  std::vector<double> factors_;  ///< per item
  IdVector<RankId, double> ranks_;
  std::vector<Nanoseconds> ends_;
};

}  // namespace ppsim::planner
