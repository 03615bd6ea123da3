#include "svg_canvas.hpp"

#include <ostream>

#include "timeline_rows.hpp"

namespace ppsim::simulator {

void SvgCanvas::rectangle(const Box& box, Rgb fill, const Border& border) {
  body_ << "<rect x=\"" << box.x << "\" y=\"" << box.y << "\" width=\"" << box.width << "\" height=\""
        << box.height << "\" fill=\"" << hex_text(fill);
  if (border.width > 0) {
    body_ << "\" stroke=\"" << hex_text(border.colour) << "\" stroke-width=\"" << border.width;
  }
  body_ << "\"/>";
}

void SvgCanvas::line(Point from, Point to, Rgb colour) {
  body_ << "<line x1=\"" << from.x << "\" y1=\"" << from.y << "\" x2=\"" << to.x << "\" y2=\"" << to.y
        << "\" stroke=\"" << hex_text(colour) << "\"/>\n";
}

void SvgCanvas::steps(const std::vector<Point>& points, Rgb colour, const std::string& name) {
  if (points.empty()) return;
  body_ << "<path fill=\"none\" stroke=\"" << hex_text(colour) << "\" d=\"M" << points.front().x << ' '
        << points.front().y;
  for (std::size_t i = 1; i < points.size(); ++i) {
    if (points[i].y == points[i - 1].y) {
      body_ << 'H' << points[i].x;
    } else {
      body_ << 'V' << points[i].y;
    }
  }
  body_ << "\"><title>" << markup_text(name) << "</title></path>\n";
}

void SvgCanvas::text(Point at, const std::string& text, const TextStyle& style) {
  body_ << "<text x=\"" << at.x << "\" y=\"" << at.y << '"';
  if (style.size != TextStyle().size) body_ << " font-size=\"" << style.size << '"';
  if (style.bold) body_ << " font-weight=\"bold\"";
  if (style.anchor != TextStyle::Anchor::start)
    body_ << " text-anchor=\"" << (style.anchor == TextStyle::Anchor::end ? "end" : "middle") << '"';
  if (style.colour) body_ << " fill=\"" << hex_text(*style.colour) << '"';
  body_ << '>' << markup_text(text) << "</text>" << (in_group_ ? "" : "\n");
}

void SvgCanvas::begin_group(const std::string& name) {
  in_group_ = true;
  body_ << "<g><title>" << markup_text(name) << "</title>";
}

void SvgCanvas::end_group() {
  in_group_ = false;
  body_ << "</g>\n";
}

void SvgCanvas::finish(std::ostream& out, double width, double height, const std::string& font) const {
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << width << "\" height=\"" << height
      << "\" viewBox=\"0 0 " << width << ' ' << height << "\" font-family=\"" << markup_text(font)
      << "\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
      << body_.str() << "</svg>\n";
}

}  // namespace ppsim::simulator
