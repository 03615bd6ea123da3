#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ppsim/simulator/writers/palette.hpp"

namespace ppsim::simulator {

/// A rectangle in pixels.
struct Box {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};

/// The line around a rectangle; none where it is 0 wide.
struct Border {
  Rgb colour;
  double width = 0;
};

struct Point {
  double x = 0;
  double y = 0;
};

struct TextStyle {
  enum class Anchor : std::uint8_t { start, middle, end };
  Anchor anchor = Anchor::start;
  double size = 11;
  bool bold = false;
  std::optional<Rgb> colour = {};  ///< none: black
};

/// The surface of a picture, in pixels from the top left corner.
class Canvas {
 public:
  virtual ~Canvas() = default;
  virtual void rectangle(const Box& box, Rgb fill, const Border& border) = 0;
  virtual void line(Point from, Point to, Rgb colour) = 0;
  /// Joined lines, each level or upright; `name` is for who points at it.
  virtual void steps(const std::vector<Point>& points, Rgb colour, const std::string& name) = 0;
  /// `at` is on the base line.
  virtual void text(Point at, const std::string& text, const TextStyle& style) = 0;
  /// Everything up to `end_group` belongs together.
  virtual void begin_group(const std::string& name) = 0;
  virtual void end_group() = 0;
};

}  // namespace ppsim::simulator
