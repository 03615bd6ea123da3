#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ppsim/core/execution/happens_before.hpp"
#include "ppsim/core/memory/tensors.hpp"

namespace ppsim {

/// Which tensors of one rank are freed, in every timing, before which others are allocated: a strict partial
/// order. Tensors are indexes into the table.
class TensorOrder {
 public:
  /// Requires: `clocks` of the same rank.
  TensorOrder(const TensorTable& table, const HappensBefore& clocks, RankId rank);

  /// The rank's tensors are [first(), last()).
  [[nodiscard]] std::uint32_t first() const { return first_; }
  [[nodiscard]] std::uint32_t last() const { return last_; }

  /// True when every user of `earlier` completes before any writer of `later` can start.
  /// Requires: both of the rank.
  [[nodiscard]] bool before(std::uint32_t earlier, std::uint32_t later) const;

  /// Per track, how many instructions complete for certain before the tensor is allocated (`born`), and how
  /// many must be complete for it to be free (`dead`): `a` is before `b` when dead(a) <= born(b) in every
  /// track.
  [[nodiscard]] std::span<const std::int32_t> born(std::uint32_t tensor) const { return row(born_, tensor); }
  [[nodiscard]] std::span<const std::int32_t> dead(std::uint32_t tensor) const { return row(dead_, tensor); }

 private:
  [[nodiscard]] std::span<const std::int32_t> row(const std::vector<std::int32_t>& rows,
                                                  std::uint32_t tensor) const {
    return {rows.data() + (tensor - first_) * tracks_, tracks_};
  }
  std::uint32_t first_ = 0;
  std::uint32_t last_ = 0;
  std::size_t tracks_ = 1;
  std::vector<std::int32_t> born_;  ///< [tensor][track]
  std::vector<std::int32_t> dead_;  ///< [tensor][track]
};

}  // namespace ppsim
