#pragma once

#include <string>
#include <vector>

#include "canvas.hpp"

namespace ppsim::simulator {

/// Of a digit or an average letter, at the usual size of a text.
inline constexpr double kDigitWidth = 6.2;

/// Between which a title and a legend stand: with the plot, in a narrow picture from edge to edge.
struct TextColumn {
  double left = 60;
  double right = 0;
  [[nodiscard]] double width() const { return right - left; }
};
[[nodiscard]] TextColumn text_column(int picture_width);

/// At most `wanted`, and so small that a text fits.
[[nodiscard]] double fitting_size(const std::string& text, double width, double wanted);

/// A text in lines of at most `letters` letters, broken between words; a longer word has a line of its own.
[[nodiscard]] std::vector<std::string> text_lines(const std::string& text, std::size_t letters);

/// A title in as many lines as it takes, from the left of the box on; its height is the size of the letters,
/// which are smaller only where a word does not fit; one that is too long for letters that can be read ends
/// in "...". Returns how much higher it is than one line.
double draw_title(Canvas& canvas, const Box& box, const std::string& title);
[[nodiscard]] double title_overhang(const std::string& title, double width, double size);

/// Entries one after another, in as many lines as it takes; an entry that is too long is broken between
/// words.
class LegendRow {
 public:
  LegendRow(Canvas& canvas, double left, double right, double y)
      : canvas_(canvas), left_(left), right_(right), x_(left), y_(y) {}

  void add(Rgb fill, Rgb border, const std::string& text);
  /// Of the last line.
  [[nodiscard]] double y() const { return y_; }

 private:
  Canvas& canvas_;
  double left_, right_, x_, y_;
};

}  // namespace ppsim::simulator
