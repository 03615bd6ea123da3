#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ppsim::cli {

/// A text as HTML and SVG write it.
[[nodiscard]] std::string html_text(const std::string& text);

/// One HTML page that needs nothing else, no script and no network; dark where the reader's system is.
[[nodiscard]] std::string chart_page(const std::string& title, const std::string& command,
                                     const std::string& body);

/// A point of a plot, which leads to the place of the page that tells about it.
struct PlotPoint {
  enum class Mark : std::uint8_t { dot, circle, cross };
  double x = 0;
  double y = 0;
  std::string name;    ///< for who points at it
  std::string target;  ///< an id of the page
  Mark mark = Mark::dot;
};

struct Plot {
  std::string x_title, y_title;
  std::vector<PlotPoint> points;
  std::vector<std::size_t> joined = {};  ///< points between which lines are drawn
  std::optional<double> limit = {};      ///< of x, a line
  std::string limit_name = {};
};
/// Requires: at least one point.
[[nodiscard]] std::string plot_svg(const Plot& plot);

/// Two bars from a middle line: how a figure falls and rises.
struct EffectBar {
  std::string name;
  double fall = 0;  ///< below 0
  double rise = 0;
  std::string text;
};
[[nodiscard]] std::string bars_svg(const std::vector<EffectBar>& bars);

/// Rows of cells that are HTML, with an id each; the first is the header and has none.
struct HtmlRow {
  std::string id;
  std::vector<std::string> cells;
};
[[nodiscard]] std::string html_table(const std::vector<HtmlRow>& rows);

}  // namespace ppsim::cli
