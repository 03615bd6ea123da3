#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "ppsim/simulator/writers/palette.hpp"

namespace ppsim::simulator {

/// Colours of a row of pixels, weighted by what each covers; the rest is white.
class PixelMixture {
 public:
  /// Pixels of one colour, from `begin` to before `end`.
  struct Run {
    std::size_t begin, end;
    Rgb colour;
  };

  explicit PixelMixture(std::size_t pixels) : darker_(pixels) {}

  void add(double left, double right, Rgb colour) {
    for (auto x = static_cast<std::size_t>(left); static_cast<double>(x) < right && x < darker_.size(); ++x) {
      const auto edge = static_cast<double>(x);
      const double share = std::min(right, edge + 1) - std::max(left, edge);
      darker_[x][0] += share * (255 - colour.red);
      darker_[x][1] += share * (255 - colour.green);
      darker_[x][2] += share * (255 - colour.blue);
    }
  }

  [[nodiscard]] std::vector<Run> runs() const {
    std::vector<Run> list;
    for (std::size_t x = 0; x < darker_.size(); ++x) {
      const Rgb colour{channel(darker_[x][0]), channel(darker_[x][1]), channel(darker_[x][2])};
      if (colour == Rgb{255, 255, 255}) continue;
      if (!list.empty() && list.back().end == x && list.back().colour == colour) {
        ++list.back().end;
      } else {
        list.push_back({x, x + 1, colour});
      }
    }
    return list;
  }

 private:
  static std::uint8_t channel(double darker) {
    return static_cast<std::uint8_t>(std::lround(std::clamp(255 - darker, 0.0, 255.0)));
  }

  std::vector<std::array<double, 3>> darker_;  ///< than white, by channel
};

}  // namespace ppsim::simulator
