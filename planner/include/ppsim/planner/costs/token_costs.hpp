#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "ppsim/core/ir/pipeline.hpp"
#include "ppsim/core/ir/tables.hpp"

namespace ppsim::planner {

/// The cost of a sequence's slices: one of l tokens with q before it takes `fixed` + `linear` l +
/// `quadratic` (q l + l (l + 1) / 2), the last factor being the pairs of tokens that causal attention looks
/// at. Units: multiples of the times that F=, B=, I=, W= and R= give.
struct TokenCosts {
  int length = 0;            ///< tokens of a sequence
  int granularity = 1;       ///< slices begin at multiples of it
  double fixed = 0;          ///< of every slice
  double linear = 0;         ///< of a token
  double quadratic = 0;      ///< of a pair of tokens
  std::vector<int> lengths;  ///< of the slices; empty: the best

  friend bool operator==(const TokenCosts&, const TokenCosts&) = default;
};

/// Reads `length=2048,fixed=0.1,linear=0.001,quadratic=1e-6,granularity=64,lengths=1024+640+384`. The length
/// follows from the lengths, and a granularity that is not given cuts the sequence in at most 128 pieces.
/// Errors: bad_argument for an unknown or repeated key, a value out of its range, no length, no cost of a
/// token or pair, lengths that are not the sequence.
[[nodiscard]] Expected<TokenCosts> parse_token_costs(std::string_view text);

/// The objective that chooses the lengths of slices.
struct SlicedSteps {
  int ranks = 1;
  int microbatches = 1;
  std::optional<int> slices;  ///< exactly so many; empty: as many as are best
};

/// The lengths given, else those of best_slice_lengths.
/// Errors: bad_argument for another number of slices than lengths; those of best_slice_lengths.
[[nodiscard]] Expected<std::vector<int>> slice_lengths(const TokenCosts& costs, const SlicedSteps& steps);

/// Costs of every stage and slice: those of `units` times what the slice takes.
[[nodiscard]] CostTable sliced_costs(const CostTable& units, const Pipeline& pipeline,
                                     const TokenCosts& costs, const std::vector<int>& lengths);

/// Saved activations of every stage and slice: of `activation` bytes for a sequence, each token its share.
[[nodiscard]] SizeTable sliced_activations(Bytes activation, const Pipeline& pipeline,
                                           const std::vector<int>& lengths);

}  // namespace ppsim::planner

namespace ppsim {
using planner::parse_token_costs;
using planner::slice_lengths;
using planner::sliced_activations;
using planner::sliced_costs;
using planner::SlicedSteps;
using planner::TokenCosts;
}  // namespace ppsim
