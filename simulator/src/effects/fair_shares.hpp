#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ppsim/simulator/effects/shared_links.hpp"

namespace ppsim::simulator {

/// fair_rates of some flows again and again, with memory that is kept from call to call.
class FairShares {
 public:
  /// Requires: `links` outlives this.
  explicit FairShares(std::span<const Link> links) : links_(links), open_(links.size()) {}

  /// The rates of `flows`, numbers into `taken`, until the next call.
  const std::vector<Rate>& of(std::span<const std::uint32_t> flows,
                              std::span<const std::vector<std::uint32_t>> taken);

 private:
  /// The capacity left of a link while rates are assigned.
  struct OpenLink {
    Rate left = 0;
    Rate flows = 0;  ///< without a rate
    [[nodiscard]] Rate share() const { return left / flows; }
  };

  void open(std::span<const std::uint32_t> links);
  void settle(std::size_t place, Rate rate, std::span<const std::uint32_t> links);
  [[nodiscard]] std::uint32_t narrowest() const;

  std::span<const Link> links_;
  std::vector<OpenLink> open_;
  std::vector<std::uint32_t> used_;  ///< links of these flows
  std::vector<Rate> rates_;
};

}  // namespace ppsim::simulator
