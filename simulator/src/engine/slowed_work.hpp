#pragma once

#include <algorithm>

#include "ppsim/core/ir/units.hpp"

namespace ppsim::simulator {

/// An action that goes at one speed while nothing disturbs it and at another one beside transfers, in whole
/// numbers: of its `alone * beside` parts of work a nanosecond does `beside`, or `alone` where it is slowed.
class SlowedWork {
 public:
  SlowedWork() = default;
  /// Requires: 0 < alone <= beside.
  SlowedWork(Nanoseconds alone, Nanoseconds beside, Nanoseconds now)
      : alone_(alone), beside_(beside), left_(Wide{alone} * beside), at_(now) {}

  /// Goes on at a speed until it is asked again.
  void go_on(Nanoseconds now, bool slowed) {
    left_ = std::max(Wide{0}, left_ - Wide{now - at_} * speed());
    at_ = now;
    slowed_ = slowed;
  }
  /// Whole nanoseconds from the last change of speed, the last of them begun.
  [[nodiscard]] Nanoseconds rest() const { return static_cast<Nanoseconds>((left_ + speed() - 1) / speed()); }

 private:
  __extension__ using Wide = __int128;
  [[nodiscard]] Wide speed() const { return slowed_ ? alone_ : beside_; }

  Nanoseconds alone_ = 1;
  Nanoseconds beside_ = 1;
  Wide left_ = 0;
  Nanoseconds at_ = 0;
  bool slowed_ = false;
};

}  // namespace ppsim::simulator
