#include "chart_page.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

namespace ppsim::cli {
namespace {

constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --page: #fff; --ink: #1b1f24; --line: #767676; --dot: #0065a3; --miss: #b3401f; --mark: #fff3c4 }
@media (prefers-color-scheme: dark) {
  :root { --page: #171b20; --ink: #e6e9ed; --line: #8c8c8c; --dot: #66b8f0; --miss: #f08a66; --mark: #4a4114 }
}
body { background: var(--page); color: var(--ink); font: 15px/1.45 system-ui, sans-serif; max-width: 1100px; margin: 2em auto; padding: 0 1em }
h1 { font-size: 1.4em } h2 { font-size: 1.1em; margin-top: 1.6em }
pre, code { font: 13px ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere }
svg { width: 100%; height: auto; max-width: 900px } svg text { font: 12px system-ui, sans-serif; fill: currentColor }
.scroll { overflow-x: auto } .scroll:focus-visible { outline: 2px solid var(--dot) } table { border-collapse: collapse }
th, td { text-align: right; padding: .25em .6em; border-bottom: 1px solid var(--line); vertical-align: top }
a { color: var(--dot) } td { white-space: nowrap }
th:nth-child(2), td:nth-child(2) { text-align: left; white-space: normal } td:nth-child(2):has(details) { min-width: 16em }
tr:target { background: var(--mark) }
.axis { stroke: var(--line); fill: none } .front { stroke: var(--dot); fill: none; stroke-width: 1.5; stroke-dasharray: 5 3 }
.dot { fill: var(--dot) } .circle { fill: none; stroke: var(--dot); stroke-width: 2 } .cross { fill: none; stroke: var(--miss); stroke-width: 2 }
.limit { fill: none; stroke: var(--miss) } a:focus-visible circle, a:hover circle, g:target circle { stroke: currentColor; stroke-width: 3 }
.fall { fill: var(--dot) } .rise { fill: var(--miss) }
@media (min-width: 1300px) { body { max-width: 1260px } td:nth-child(2):has(details) { min-width: 26em } }
@media (max-width: 900px) {
  body { margin: 1em auto; padding: 0 .6em } table { font-size: 13px } th, td { padding: .25em .35em } td:nth-child(2):has(details) { min-width: 12em }
}
)";

constexpr double kWidth = 900, kHeight = 420, kLeft = 70, kRight = 30, kTop = 20, kBottom = 50;

/// From the least to the most, with a little space around.
struct Range {
  double from = 0;
  double to = 1;

  void widen() {
    const double space = to > from ? 0.08 * (to - from) : std::max(0.1 * std::abs(to), 1.0);
    from = std::max(0.0, from - space);
    to += space;
  }
  /// A step of 1, 2 or 5 times a power of ten.
  [[nodiscard]] double step() const {
    const double rough = (to - from) / 6;
    const double power = std::pow(10, std::floor(std::log10(rough)));
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (power * factor >= rough) return power * factor;
    }
    return power * 10;
  }
  [[nodiscard]] std::vector<double> ticks() const {
    std::vector<double> list;
    for (double tick = std::ceil(from / step()) * step(); tick <= to; tick += step()) list.push_back(tick);
    return list;
  }
};

class PlotWriter {
 public:
  explicit PlotWriter(const Plot& plot) : plot_(plot) {
    const auto [left, right] = std::ranges::minmax_element(plot.points, {}, &PlotPoint::x);
    const auto [low, high] = std::ranges::minmax_element(plot.points, {}, &PlotPoint::y);
    x_ = {left->x, right->x};
    y_ = {low->y, high->y};
    if (plot.limit) x_ = {std::min(x_.from, *plot.limit), std::max(x_.to, *plot.limit)};
    x_.widen();
    y_.widen();
  }

  std::string text() {
    out_ << "<svg viewBox=\"0 0 " << kWidth << ' ' << kHeight << "\" role=\"group\" aria-label=\""
         << html_text(plot_.y_title + " over " + plot_.x_title) << "\">\n";
    write_axes();
    write_limit();
    write_joined();
    for (const PlotPoint& point : plot_.points) write_point(point);
    out_ << "</svg>\n";
    return out_.str();
  }

 private:
  [[nodiscard]] double px(double x) const {
    return kLeft + (x - x_.from) / (x_.to - x_.from) * (kWidth - kLeft - kRight);
  }
  [[nodiscard]] double py(double y) const {
    return kHeight - kBottom - (y - y_.from) / (y_.to - y_.from) * (kHeight - kTop - kBottom);
  }

  void write_axes() {
    out_ << "<path class=\"axis\" d=\"M" << kLeft << ' ' << kTop << 'V' << kHeight - kBottom << 'H'
         << kWidth - kRight << "\"/>\n";
    for (const double tick : x_.ticks())
      out_ << "<text text-anchor=\"middle\" x=\"" << px(tick) << "\" y=\"" << kHeight - kBottom + 18 << "\">"
           << tick << "</text>";
    for (const double tick : y_.ticks())
      out_ << "<text text-anchor=\"end\" x=\"" << kLeft - 8 << "\" y=\"" << py(tick) + 4 << "\">" << tick
           << "</text>";
    out_ << "\n<text text-anchor=\"end\" x=\"" << kWidth - kRight << "\" y=\"" << kHeight - 10 << "\">"
         << html_text(plot_.x_title) << "</text><text x=\"8\" y=\"" << kTop - 6 << "\">"
         << html_text(plot_.y_title) << "</text>\n";
  }

  void write_limit() {
    if (!plot_.limit) return;
    out_ << "<path class=\"limit\" d=\"M" << px(*plot_.limit) << ' ' << kTop << 'V' << kHeight - kBottom
         << "\"/><text text-anchor=\"end\" x=\"" << px(*plot_.limit) - 5 << "\" y=\"" << kTop + 12 << "\">"
         << html_text(plot_.limit_name) << "</text>\n";
  }

  void write_joined() {
    if (plot_.joined.size() < 2) return;
    out_ << "<path class=\"front\" d=\"";
    for (std::size_t i = 0; i < plot_.joined.size(); ++i) {
      const PlotPoint& point = plot_.points[plot_.joined[i]];
      out_ << (i == 0 ? 'M' : 'L') << px(point.x) << ' ' << py(point.y);
    }
    out_ << "\"/>\n";
  }

  void write_point(const PlotPoint& point) {
    const double x = px(point.x), y = py(point.y);
    out_ << "<g id=\"point-" << point.target << "\"><a href=\"#" << point.target << "\"><title>"
         << html_text(point.name) << "</title>";
    if (point.mark == PlotPoint::Mark::cross) {
      out_ << "<path class=\"cross\" d=\"M" << x - 5 << ' ' << y - 5 << "l10 10m0 -10l-10 10\"/>";
    } else {
      out_ << "<circle class=\"" << (point.mark == PlotPoint::Mark::dot ? "dot" : "circle") << "\" cx=\"" << x
           << "\" cy=\"" << y << "\" r=\"6\"/>";
    }
    out_ << "</a></g>\n";
  }

  const Plot& plot_;
  Range x_, y_;
  std::ostringstream out_;
};

}  // namespace

std::string html_text(const std::string& text) {
  std::string result;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += letter;
    }
  }
  return result;
}

std::string chart_page(const std::string& title, const std::string& command, const std::string& body) {
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width\">\n<link rel=\"icon\" "
         "href=\"data:,\">\n<title>" +
         html_text(title) + "</title>\n<style>" + kStyle + "</style>\n<h1>" + html_text(title) +
         "</h1>\n<pre>" + html_text(command) + "</pre>\n" + body + "</html>\n";
}

std::string plot_svg(const Plot& plot) { return PlotWriter(plot).text(); }

std::string bars_svg(const std::vector<EffectBar>& bars) {
  constexpr double kRow = 24, kNames = 190, kTexts = 190;
  const double middle = kNames + (kWidth - kNames - kTexts) / 2, half = (kWidth - kNames - kTexts) / 2;
  double most = 0;
  for (const EffectBar& bar : bars) most = std::max({most, -bar.fall, bar.rise});
  const double scale = most > 0 ? half / most : 0;
  std::ostringstream out;
  out << "<svg viewBox=\"0 0 " << kWidth << ' ' << kRow * static_cast<double>(bars.size()) + 6
      << "\" role=\"img\" aria-label=\"The table below has these figures.\">\n";
  for (std::size_t i = 0; i < bars.size(); ++i) {
    const EffectBar& bar = bars[i];
    const double y = kRow * static_cast<double>(i) + 3;
    out << "<text text-anchor=\"end\" x=\"" << kNames - 8 << "\" y=\"" << y + 16 << "\">"
        << html_text(bar.name) << "</text><rect class=\"fall\" x=\"" << middle + bar.fall * scale << "\" y=\""
        << y + 3 << "\" width=\"" << std::abs(bar.fall) * scale
        << "\" height=\"17\"/><rect class=\"rise\" x=\"" << middle << "\" y=\"" << y + 3 << "\" width=\""
        << bar.rise * scale << "\" height=\"17\"/><text x=\"" << kWidth - kTexts + 8 << "\" y=\"" << y + 16
        << "\">" << html_text(bar.text) << "</text>\n";
  }
  out << "<path class=\"axis\" d=\"M" << middle << " 0V" << kRow * static_cast<double>(bars.size()) + 6
      << "\"/>\n</svg>\n";
  return out.str();
}

std::string html_table(const std::vector<HtmlRow>& rows) {
  std::string text = "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"table\"><table>\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const char* cell = i == 0 ? "th" : "td";
    text += rows[i].id.empty() ? "<tr>" : "<tr id=\"" + rows[i].id + "\">";
    for (const std::string& content : rows[i].cells)
      text += std::string("<") + cell + ">" + content + "</" + cell + ">";
    text += "</tr>\n";
  }
  return text + "</table></div>\n";
}

}  // namespace ppsim::cli
