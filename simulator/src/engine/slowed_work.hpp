#pragma once

#include <algorithm>
#include <numeric>

#include "ppsim/core/ir/units.hpp"

namespace ppsim::simulator {

/// An action that goes at one speed while nothing disturbs it and at another one beside transfers, each of
/// them at a share of `full` that others leave it, in whole numbers: of its parts of work a nanosecond does
/// `fast * share`, or `slow * share` where transfers slow it down.
class SlowedWork {
 public:
  SlowedWork() = default;
  /// Requires: 0 < alone <= beside, and alone * beside * full fits in 126 bits.
  SlowedWork(Nanoseconds alone, Nanoseconds beside, Nanoseconds full, Nanoseconds now)
      : fast_(beside / std::gcd(alone, beside)),
        slow_(alone / std::gcd(alone, beside)),
        left_(Wide{alone} * fast_ * full),
        speed_(Wide{fast_} * full),
        at_(now) {}

  /// Goes on at a speed until it is asked again.
  void go_on(Nanoseconds now, bool beside_transfers, Nanoseconds share) {
    left_ = std::max(Wide{0}, left_ - Wide{now - at_} * speed_);
    at_ = now;
    speed_ = Wide{beside_transfers ? slow_ : fast_} * share;
  }
  /// Whole nanoseconds from the last change of speed, the last of them begun.
  [[nodiscard]] Nanoseconds rest() const { return static_cast<Nanoseconds>((left_ + speed_ - 1) / speed_); }

 private:
  __extension__ using Wide = __int128;

  Nanoseconds fast_ = 1;
  Nanoseconds slow_ = 1;
  Wide left_ = 0;
  Wide speed_ = 1;
  Nanoseconds at_ = 0;
};

}  // namespace ppsim::simulator
