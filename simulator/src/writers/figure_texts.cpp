#include "figure_texts.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string_view>

namespace ppsim::simulator {
namespace {

constexpr double kBold = 1.1;      // times as wide
constexpr double kTitleSpace = 3;  // between the lines of a title
constexpr double kWide = 1.3;      // a capital letter, times as wide as a digit
constexpr double kSmallest = 8;    // letters that can be read
constexpr std::string_view kCut = "...";

/// The most letters that a word can take, counted in digits.
double word_width(std::string_view word) {
  const auto capitals =
      std::ranges::count_if(word, [](char letter) { return letter >= 'A' && letter <= 'Z'; });
  return static_cast<double>(word.size()) + (kWide - 1) * static_cast<double>(capitals);
}

/// The begin of a word, of whole letters of UTF-8, that is so wide.
std::string_view word_begin(std::string_view word, double width) {
  const auto continues = [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; };
  while (!word.empty() && word_width(word) > width) {
    while (word.size() > 1 && continues(word.back())) word.remove_suffix(1);
    word.remove_suffix(1);
  }
  return word;
}

/// The size of bold letters in which a line of a title has its width.
double title_size(const std::string& line, const Box& box) {
  const bool is_word = line.find(' ') == std::string::npos;  // which could not be broken into lines
  const double digits = is_word ? word_width(line) : static_cast<double>(line.size());
  const double widest = kBold * kDigitWidth / TextStyle().size * digits;
  return widest == 0 ? box.height : std::floor(std::min(box.height, box.width / widest));
}

/// A word that is too long even in the smallest letters is cut; who points at it sees all of the title.
void draw_title_line(Canvas& canvas, const Box& box, const std::string& line, const std::string& title) {
  const double size = title_size(line, box);
  const double digits = box.width / (kBold * kDigitWidth / TextStyle().size * kSmallest);
  const auto begin = word_begin(line, digits - static_cast<double>(kCut.size()));
  if (size >= kSmallest || begin.empty()) {
    canvas.text({box.x, box.y}, line, {.size = size, .bold = true});
    return;
  }
  canvas.begin_group(title);
  canvas.text({box.x, box.y}, std::string(begin) + std::string(kCut), {.size = kSmallest, .bold = true});
  canvas.end_group();
}

std::vector<std::string> title_lines(const std::string& title, double width, double size) {
  const double letter = kBold * kDigitWidth * size / TextStyle().size;
  return text_lines(title, static_cast<std::size_t>(std::max(1.0, width / letter)));
}

}  // namespace

TextColumn text_column(int picture_width) {
  constexpr double kEdge = 10, kRight = 20, kUsualEntry = 250;
  const TextColumn usual{.right = picture_width - kRight};
  return usual.width() < kUsualEntry ? TextColumn{kEdge, picture_width - kEdge} : usual;
}

double fitting_size(const std::string& text, double width, double wanted) {
  const double widest = kDigitWidth / TextStyle().size * static_cast<double>(text.size());
  return widest == 0 ? wanted : std::min(wanted, width / widest);
}

std::vector<std::string> text_lines(const std::string& text, std::size_t letters) {
  std::vector<std::string> lines(1);
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (lines.back().empty()) {
      lines.back() = word;
    } else if (lines.back().size() + 1 + word.size() <= letters) {
      lines.back() += ' ' + word;
    } else {
      lines.push_back(word);
    }
  }
  return lines;
}

double draw_title(Canvas& canvas, const Box& box, const std::string& title) {
  const std::vector<std::string> lines = title_lines(title, box.width, box.height);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const double y = box.y + static_cast<double>(i) * (box.height + kTitleSpace);
    draw_title_line(canvas, {box.x, y, box.width, box.height}, lines[i], title);
  }
  return static_cast<double>(lines.size() - 1) * (box.height + kTitleSpace);
}

double title_overhang(const std::string& title, double width, double size) {
  return static_cast<double>(title_lines(title, width, size).size() - 1) * (size + kTitleSpace);
}

void LegendRow::add(Rgb fill, Rgb border, const std::string& text) {
  constexpr double kLine = 18, kSwatch = 18, kGap = 16, kInner = 13;
  const double width = kSwatch + kGap + kDigitWidth * static_cast<double>(text.size());
  if (x_ > left_ && x_ + width > right_) {
    x_ = left_;
    y_ += kLine;
  }
  canvas_.rectangle({x_, y_ - 10, 13, 13}, fill, {border, 1});
  const auto letters = static_cast<std::size_t>(std::max(1.0, (right_ - x_ - kSwatch) / kDigitWidth));
  const std::vector<std::string> lines = text_lines(text, letters);
  for (std::size_t i = 0; i < lines.size(); ++i)
    canvas_.text({x_ + kSwatch, y_ + 1 + static_cast<double>(i) * kInner}, lines[i], {});
  y_ += static_cast<double>(lines.size() - 1) * kInner;
  x_ += lines.size() == 1 ? width : right_ - left_;  // nothing beside an entry of several lines
}

}  // namespace ppsim::simulator
