#include "pdf_canvas.hpp"

#include <algorithm>
#include <array>
#include <iomanip>
#include <ostream>

#include "ppsim/simulator/writers/timeline.hpp"

namespace ppsim::simulator {
namespace {

constexpr double kPointsPerPixel = 0.75;  // 72 and 96 to the inch

/// Widths of space to ~ in thousandths of the size.
/// Source: Adobe's metrics of Helvetica, Core 14 AFM.
constexpr std::array<int, 95> kHelvetica = {
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333,  278, 278, 556, 556, 556,
    556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667,
    611, 778, 722, 278, 500, 667, 556, 833, 722, 778, 667, 778, 722, 667,  611, 722, 667, 944, 667,
    667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556, 556, 278,  556, 556, 222, 222, 500,
    222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500,  500, 334, 260, 334, 584};
constexpr int kOtherWidth = 556;

double width_of(const std::string& latin, double size) {
  double width = 0;
  for (const char letter : latin) {
    const auto place = as_size(static_cast<unsigned char>(letter)) - ' ';
    width += place < kHelvetica.size() ? kHelvetica[place] : kOtherWidth;
  }
  return width * size / 1000;
}

/// Of UTF-8 the bytes of Latin 1, which is what PDF's fonts have; '?' for others.
std::string latin_text(const std::string& text) {
  std::string latin;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto lead = static_cast<unsigned char>(text[i]);
    if (lead < 0x80) {
      latin += text[i];
    } else if ((lead == 0xC2 || lead == 0xC3) && i + 1 < text.size()) {
      latin += static_cast<char>(((lead & 0x03U) << 6U) | (static_cast<unsigned char>(text[++i]) & 0x3FU));
    } else if (lead >= 0xC0) {
      latin += '?';
    }
  }
  return latin;
}

/// Between parentheses, as PDF writes texts.
std::string pdf_string(const std::string& latin) {
  std::string text = "(";
  for (const char letter : latin) {
    if (letter == '(' || letter == ')' || letter == '\\') text += '\\';
    text += letter;
  }
  return text + ")";
}

std::string rgb_text(Rgb colour) {
  std::ostringstream text;
  text << std::setprecision(3) << colour.red / 255.0 << ' ' << colour.green / 255.0 << ' '
       << colour.blue / 255.0;
  return text.str();
}

/// Objects one after another, and the table of where each is.
class PdfFile {
 public:
  void add(const std::string& object) {
    offsets_.push_back(text_.size());
    text_ += std::to_string(offsets_.size()) + " 0 obj\n" + object + "\nendobj\n";
  }

  [[nodiscard]] std::string finished() const {
    std::ostringstream out;
    const std::size_t count = offsets_.size() + 1;
    out << text_ << "xref\n0 " << count << "\n0000000000 65535 f \n";
    for (const std::size_t offset : offsets_)
      out << std::setw(10) << std::setfill('0') << offset << " 00000 n \n";
    out << "trailer\n<< /Size " << count << " /Root 1 0 R >>\nstartxref\n" << text_.size() << "\n%%EOF\n";
    return out.str();
  }

 private:
  std::string text_ = "%PDF-1.4\n%\xE2\xE3\xCF\xD3\n";  // bytes above 127 say that it is no text
  std::vector<std::size_t> offsets_;
};

std::string font_object(const char* name) {
  return std::string("<< /Type /Font /Subtype /Type1 /BaseFont /") + name + " /Encoding /WinAnsiEncoding >>";
}

}  // namespace

bool pdf_has_letters(std::string_view text) {
  return std::ranges::all_of(text, [](char letter) {
    const auto byte = static_cast<unsigned char>(letter);
    return byte < 0x80 || (byte & 0xC0U) == 0x80 || byte == 0xC2 || byte == 0xC3;
  });
}

void PdfCanvas::rectangle(const Box& box, Rgb fill, const Border& border) {
  body_ << rgb_text(fill) << " rg ";
  if (border.width > 0) body_ << rgb_text(border.colour) << " RG " << border.width << " w ";
  body_ << box.x << ' ' << box.y << ' ' << box.width << ' ' << box.height << " re "
        << (border.width > 0 ? "B" : "f") << '\n';
}

void PdfCanvas::line(Point from, Point to, Rgb colour) {
  body_ << rgb_text(colour) << " RG 1 w " << from.x << ' ' << from.y << " m " << to.x << ' ' << to.y
        << " l S\n";
}

void PdfCanvas::steps(const std::vector<Point>& points, Rgb colour, const std::string&) {
  if (points.empty()) return;
  body_ << rgb_text(colour) << " RG 1 w " << points.front().x << ' ' << points.front().y << " m\n";
  for (std::size_t i = 1; i < points.size(); ++i) body_ << points[i].x << ' ' << points[i].y << " l\n";
  body_ << "S\n";
}

void PdfCanvas::text(Point at, const std::string& text, const TextStyle& style) {
  const std::string latin = latin_text(text);
  const double width = width_of(latin, style.size);
  const double left = at.x - (style.anchor == TextStyle::Anchor::start    ? 0
                              : style.anchor == TextStyle::Anchor::middle ? width / 2
                                                                          : width);
  body_ << rgb_text(style.colour.value_or(Rgb{0, 0, 0})) << " rg BT /F" << (style.bold ? 2 : 1) << ' '
        << style.size << " Tf 1 0 0 -1 " << left << ' ' << at.y << " Tm " << pdf_string(latin) << " Tj ET\n";
}

void PdfCanvas::finish(std::ostream& out, double width, double height) const {
  std::ostringstream page;
  page << "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 " << width * kPointsPerPixel << ' '
       << height * kPointsPerPixel << "] /Contents 4 0 R /Resources << /Font << /F1 5 0 R /F2 6 0 R >> >> >>";
  std::ostringstream content;  // y grows downwards, as in pixels
  content << kPointsPerPixel << " 0 0 " << -kPointsPerPixel << " 0 " << height * kPointsPerPixel << " cm\n"
          << body_.str();
  PdfFile file;
  file.add("<< /Type /Catalog /Pages 2 0 R >>");
  file.add("<< /Type /Pages /Kids [3 0 R] /Count 1 >>");
  file.add(page.str());
  file.add("<< /Length " + std::to_string(content.str().size()) + " >>\nstream\n" + content.str() +
           "endstream");
  file.add(font_object("Helvetica"));
  file.add(font_object("Helvetica-Bold"));
  out << file.finished();
}

}  // namespace ppsim::simulator
