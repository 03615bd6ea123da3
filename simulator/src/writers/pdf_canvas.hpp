#pragma once

#include <iomanip>
#include <sstream>

#include "canvas.hpp"

namespace ppsim::simulator {

/// A page of PDF 1.4 in Helvetica, which every reader has. Names of groups and lines are left out.
class PdfCanvas : public Canvas {
 public:
  PdfCanvas() { body_ << std::fixed << std::setprecision(3); }  // PDF has no exponents
  void rectangle(const Box& box, Rgb fill, const Border& border) override;
  void line(Point from, Point to, Rgb colour) override;
  void steps(const std::vector<Point>& points, Rgb colour, const std::string& name) override;
  void text(Point at, const std::string& text, const TextStyle& style) override;
  void begin_group(const std::string&) override {}
  void end_group() override {}

  /// Writes the whole document, of so many pixels of 1/96 inch.
  void finish(std::ostream& out, double width, double height) const;

 private:
  std::ostringstream body_;
};

}  // namespace ppsim::simulator
