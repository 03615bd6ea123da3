#pragma once

#include <sstream>

#include "canvas.hpp"

namespace ppsim::simulator {

class SvgCanvas : public Canvas {
 public:
  void rectangle(const Box& box, Rgb fill, const Border& border) override;
  void line(Point from, Point to, Rgb colour) override;
  void steps(const std::vector<Point>& points, Rgb colour, const std::string& name) override;
  void text(Point at, const std::string& text, const TextStyle& style) override;
  void begin_group(const std::string& name) override;
  void end_group() override;

  /// Writes the whole document.
  void finish(std::ostream& out, double width, double height, const std::string& font) const;

 private:
  std::ostringstream body_;  // a stream of its own: numbers do not depend on the format of the caller's
  bool in_group_ = false;
};

}  // namespace ppsim::simulator
