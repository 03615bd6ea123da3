#pragma once

#include <set>
#include <string>
#include <vector>

#include "canvas.hpp"
#include "ppsim/simulator/writers/timeline.hpp"
#include "timeline_rows.hpp"

namespace ppsim::simulator {

/// The entries of the legend for all runs of a picture.
struct FigureLegend {
  std::set<OpKind> kinds;
  bool chunks = false;
  bool routes = false;
  bool padding = false;
};

/// Where a run stands in a picture.
struct FigurePlace {
  double top = 0;       ///< of its title
  Nanoseconds end = 0;  ///< of the time axis
  bool is_last = true;  ///< the times of the axis are below it
};

/// Draws one run of a picture.
class FigureWriter {
 public:
  FigureWriter(Canvas& canvas, const SvgRun& run, const SvgOptions& options, const FigurePlace& place);

  /// Adds to the legend what it drew. Returns where it ends.
  double write(FigureLegend& legend);
  /// In as many lines as it takes. Returns where the last one is.
  double write_legend(const FigureLegend& legend, double y);

 private:
  void write_frame(double rows, double bottom);
  void write_grid(double rows, double bottom);
  void write_row(RankId rank, FigureLegend& legend);
  void write_mixtures(RankId rank, const std::vector<TimelineCell>& row, FigureLegend& legend);
  void write_cell(RankId rank, const TimelineCell& cell, Box box);
  void write_action(RankId rank, const Action& action, const Box& box);
  void write_memory(double top);
  [[nodiscard]] double top_of(RankId rank) const { return top_ + rank.value() * options_.row_height; }
  [[nodiscard]] double x_of(Nanoseconds time) const;
  [[nodiscard]] Nanoseconds grid_step() const;
  [[nodiscard]] std::string axis_text(Nanoseconds time) const;
  [[nodiscard]] std::size_t max_actions(const std::vector<TimelineCell>& row) const;
  [[nodiscard]] Rgb colour(RankId rank, const Action& action) const;
  [[nodiscard]] bool on_later_route(const Action& action) const;
  [[nodiscard]] std::string label_of(const Action& action) const;

  Canvas& canvas_;
  std::string title_;
  const Program& program_;
  const TimedTrace& trace_;
  const SvgOptions& options_;
  FigurePlace place_;
  double left_ = 60;
  double right_ = 20;
  double top_ = 0;
};

/// Draws runs under each other over one time axis. Returns the height of the picture.
double draw_runs(Canvas& canvas, std::span<const SvgRun> runs, const SvgOptions& options);
/// One run, whose title is that of the picture.
double draw_run(Canvas& canvas, const SvgRun& run, const SvgOptions& options);

}  // namespace ppsim::simulator
