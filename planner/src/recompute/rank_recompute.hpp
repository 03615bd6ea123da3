#pragma once

#include <array>
#include <optional>
#include <vector>

#include "ppsim/core/io/json.hpp"
#include "ppsim/core/ir/schedule.hpp"
#include "ppsim/core/lowering/memory_saving.hpp"

namespace ppsim::planner {

inline constexpr std::array kRecomputeChoices = {Recompute::none, Recompute::selective, Recompute::full};

/// Costs and sizes of a pipeline whose stages all recompute alike, by Recompute.
using RecomputeTables = std::array<Tables, kRecomputeChoices.size()>;

/// The recomputation that the stages of one rank may choose, and the memory of each choice.
class RankRecompute {
 public:
  RankRecompute(const Schedule& schedule, RankId rank, const RecomputeTables& tables);

  /// The cheapest choice for each stage of the rank, in the order of Pipeline::stages_of, whose activations
  /// never need more than `budget`; nothing where there is none.
  [[nodiscard]] std::optional<std::vector<Recompute>> cheapest(Bytes budget) const;
  /// The most that the activations of a choice need at any cell of the row.
  [[nodiscard]] Bytes peak(const std::vector<Recompute>& choice) const;

 private:
  /// The addition of one stage under one choice.
  struct Option {
    Nanoseconds time = 0;       ///< in the whole step
    std::vector<Bytes> memory;  ///< by moment
  };
  class Search;

  void add_moments(std::span<const Cell> row);
  [[nodiscard]] Option option(const Pipeline& pipeline, std::size_t stage, Recompute choice,
                              const RecomputeTables& tables) const;

  /// Activations of one stage at a moment: between F and I, between F and W, and, of these, those whose
  /// backward has begun.
  struct Live {
    std::int64_t for_input = 0, for_weight = 0, begun_input = 0, begun_weight = 0;
    friend auto operator<=>(const Live&, const Live&) = default;
  };
  std::vector<StageId> stages_;
  std::vector<std::vector<Live>> moments_;                             ///< by moment, by stage of the rank
  std::vector<std::array<Option, kRecomputeChoices.size()>> options_;  ///< by stage of the rank
};

}  // namespace ppsim::planner
