#include "figure.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iomanip>
#include <sstream>
#include <vector>

#include "figure_texts.hpp"
#include "ppsim/core/io/text.hpp"
#include "ppsim/core/ir/padding.hpp"

namespace ppsim::simulator {
namespace {

using Anchor = TextStyle::Anchor;

constexpr double kSmallestLabel = 7;  // that is read in print
constexpr int kLabelHeight = 12;
constexpr double kNarrow = 2;  // pixels of a cell that still has a border
constexpr double kMemoryHeight = 110, kMemoryGap = 14;
constexpr double kTitleSize = 14, kFigureTitleSize = 16;
constexpr Rgb kWhite{255, 255, 255}, kBlack{0, 0, 0}, kGrid{0xD8, 0xD8, 0xD8};
constexpr Rgb kMemory{0x1B, 0x3A, 0x6B};
constexpr double kPale = 0.7;  // of the way to white: padding

std::string size_words(Bytes bytes) {
  constexpr std::array<std::pair<double, const char*>, 4> kUnits = {
      {{1e12, " TB"}, {1e9, " GB"}, {1e6, " MB"}, {1e3, " kB"}}};
  std::ostringstream text;
  text << std::setprecision(3);
  for (const auto& [size, unit] : kUnits) {
    if (static_cast<double>(bytes) < size) continue;
    text << static_cast<double>(bytes) / size << unit;
    return text.str();
  }
  text << bytes << " B";
  return text.str();
}

/// Colours of a row of pixels, weighted by what each covers; the rest is white.
class PixelMixture {
 public:
  /// Pixels of one colour, from `begin` to before `end`.
  struct Run {
    std::size_t begin, end;
    Rgb colour;
  };

  explicit PixelMixture(std::size_t pixels) : darker_(pixels) {}

  void add(double left, double right, Rgb colour) {
    for (auto x = static_cast<std::size_t>(left); static_cast<double>(x) < right && x < darker_.size(); ++x) {
      const auto edge = static_cast<double>(x);
      const double share = std::min(right, edge + 1) - std::max(left, edge);
      darker_[x][0] += share * (255 - colour.red);
      darker_[x][1] += share * (255 - colour.green);
      darker_[x][2] += share * (255 - colour.blue);
    }
  }

  [[nodiscard]] std::vector<Run> runs() const {
    std::vector<Run> list;
    for (std::size_t x = 0; x < darker_.size(); ++x) {
      const Rgb colour{channel(darker_[x][0]), channel(darker_[x][1]), channel(darker_[x][2])};
      if (colour == Rgb{255, 255, 255}) continue;
      if (!list.empty() && list.back().end == x && list.back().colour == colour) {
        ++list.back().end;
      } else {
        list.push_back({x, x + 1, colour});
      }
    }
    return list;
  }

 private:
  static std::uint8_t channel(double darker) {
    return static_cast<std::uint8_t>(std::lround(std::clamp(255 - darker, 0.0, 255.0)));
  }

  std::vector<std::array<double, 3>> darker_;  ///< than white, by channel
};

/// Steps, of which only the least and the most of a pixel are drawn.
template <class Place>
std::vector<Point> envelope(const std::vector<MemoryPoint>& profile, const Place& place) {
  std::vector<Point> points = {place(0, 0)};
  const auto column = [&](const MemoryPoint& point) { return std::round(place(point.at.time, 0).x * 2) / 2; };
  const auto to = [&](double x, Bytes bytes) {
    points.push_back({x, points.back().y});
    points.push_back({x, place(0, bytes).y});
  };
  for (std::size_t i = 0; i < profile.size();) {
    const double x = column(profile[i]);
    Bytes least = profile[i].bytes, most = least, last = least;
    for (; i < profile.size() && column(profile[i]) == x; ++i) {
      last = profile[i].bytes;
      least = std::min(least, last);
      most = std::max(most, last);
    }
    if (most != last) to(x, most);
    if (least != last) to(x, least);
    to(x, last);
  }
  return points;
}

}  // namespace

FigureWriter::FigureWriter(Canvas& canvas, const SvgRun& run, const SvgOptions& options,
                           const FigurePlace& place)
    : canvas_(canvas),
      title_(run.title),
      program_(run.program),
      trace_(run.trace),
      options_(options),
      place_(place) {
  top_ = place.top + (options.rows_only ? 1 : title_.empty() ? 10 : 34);
  if (options.rows_only) left_ = right_ = 1;
  if (!options.rows_only) top_ += title_overhang(title_, text_column(options.width).width(), kTitleSize);
}

double FigureWriter::write(FigureLegend& legend) {
  const int ranks = program_.pipeline().ranks();
  for (int r = 0; r < ranks; ++r)
    legend.chunks = legend.chunks || program_.pipeline().stages_of(RankId(r)).size() > 1;
  for (const MicrobatchId mb : program_.pipeline().microbatch_ids()) {
    const bool padding = is_padding(program_.pipeline(), mb);
    legend.padding = legend.padding || padding;
    legend.routes = legend.routes || (!padding && program_.pipeline().route_of(mb).value() > 0);
  }
  const double rows = top_ + ranks * options_.row_height;
  const double bottom = rows + (options_.memory.empty() ? 0 : kMemoryHeight + kMemoryGap);
  if (!options_.rows_only) write_frame(rows, bottom);
  for (int r = 0; r < ranks; ++r) write_row(RankId(r), legend);
  if (!options_.memory.empty()) write_memory(rows + kMemoryGap);
  return bottom;
}

double FigureWriter::write_legend(const FigureLegend& legend, double y) {
  const TextColumn column = text_column(options_.width);
  LegendRow row(canvas_, column.left, column.right, y);
  for (const OpKind kind : legend.kinds) {
    row.add(colour_of(options_.palette, kind), kWhite,
            std::string(info(kind).text) + " " + std::string(info(kind).meaning));
  }
  if (legend.chunks) row.add({0xD0, 0xD0, 0xD0}, kWhite, "lighter: later chunk of the rank");
  if (legend.routes) row.add(kWhite, kBlack, "border: later route");
  if (legend.padding) row.add(lighter({0x80, 0x80, 0x80}, kPale), kWhite, "pale, no number: padding");
  row.add(kWhite, {0xBB, 0xBB, 0xBB}, "idle");
  if (!options_.memory.empty()) row.add(kMemory, kWhite, "memory; lighter lines: later ranks");
  if (options_.unit_axis) row.add(kWhite, kWhite, "time in units of the costs");
  return row.y();
}

/// Title, axis and the names of the ranks.
void FigureWriter::write_frame(double rows, double bottom) {
  const TextColumn column = text_column(options_.width);
  if (!title_.empty())
    draw_title(canvas_, {column.left, place_.top + 20, column.width(), kTitleSize}, title_);
  write_grid(rows, bottom);
  const int every = (kLabelHeight + options_.row_height - 1) / options_.row_height;
  for (int r = 0; r < program_.pipeline().ranks(); r += every) {
    canvas_.text({left_ - 8, top_of(RankId(r)) + options_.row_height / 2.0 + 4}, "rank " + std::to_string(r),
                 {.anchor = Anchor::end});
  }
}

double FigureWriter::x_of(Nanoseconds time) const {
  if (place_.end == 0) return left_;
  return left_ +
         (options_.width - left_ - right_) * static_cast<double>(time) / static_cast<double>(place_.end);
}

/// A step between times whose texts do not run into each other.
Nanoseconds FigureWriter::grid_step() const {
  constexpr double kGap = 10;
  for (int most = 12; most > 1; --most) {
    const Nanoseconds step = axis_step(place_.end, most);
    std::size_t longest = 0;
    for (Nanoseconds time = 0; time <= place_.end; time += step)
      longest = std::max(longest, axis_text(time).size());
    if (x_of(step) - x_of(0) >= kDigitWidth * static_cast<double>(longest) + kGap) return step;
  }
  return axis_step(place_.end, 1);
}

/// The times are below everything, the lines go through all of it.
void FigureWriter::write_grid(double rows, double bottom) {
  const Nanoseconds step = grid_step();
  for (Nanoseconds time = 0; time <= place_.end; time += step) {
    canvas_.line({x_of(time), top_}, {x_of(time), bottom + 4}, kGrid);
    if (!place_.is_last) continue;
    canvas_.text({x_of(time), bottom + 17}, axis_text(time),
                 {.anchor = Anchor::middle, .colour = Rgb{0x44, 0x44, 0x44}});
  }
  if (options_.memory.empty()) return;
  canvas_.line({left_, rows + kMemoryGap}, {options_.width - right_, rows + kMemoryGap}, kGrid);
}

std::string FigureWriter::axis_text(Nanoseconds time) const {
  if (!options_.unit_axis) return time_text(time);
  std::ostringstream text;
  text << static_cast<double>(time) / 1e6;
  return text.str();
}

void FigureWriter::write_row(RankId rank, FigureLegend& legend) {
  const std::vector<TimelineCell> row = timeline_row(program_, trace_, rank);
  write_mixtures(rank, row, legend);
  for (const TimelineCell& cell : row) {
    const Box box{x_of(cell.start), top_of(rank) + 1, x_of(cell.end) - x_of(cell.start),
                  options_.row_height - 2.0};
    if (box.width < kNarrow) continue;
    for (const Action& action : program_.actions(cell.instruction)) legend.kinds.insert(action.kind);
    if (options_.rows_only) {
      write_cell(rank, cell, box);
      continue;
    }
    canvas_.begin_group(actions_text(program_, cell.instruction) + " " + time_text(cell.start) + " - " +
                        time_text(cell.end));
    write_cell(rank, cell, box);
    canvas_.end_group();
  }
}

/// The narrow cells of a row, pixel by pixel.
void FigureWriter::write_mixtures(RankId rank, const std::vector<TimelineCell>& row, FigureLegend& legend) {
  const std::size_t levels = max_actions(row);
  for (std::size_t level = 0; level < levels; ++level) {
    PixelMixture pixels(as_size(options_.width) + 1);
    for (const TimelineCell& cell : row) {
      const double left = x_of(cell.start), right = x_of(cell.end);
      if (right - left >= kNarrow) continue;
      const auto actions = program_.actions(cell.instruction);
      const Action& action = actions[level * actions.size() / levels];
      pixels.add(left, right, colour(rank, action));
      legend.kinds.insert(action.kind);
    }
    const double height = (options_.row_height - 2.0) / static_cast<double>(levels);
    for (const PixelMixture::Run& run : pixels.runs()) {
      canvas_.rectangle(
          {static_cast<double>(run.begin), top_of(rank) + 1 + static_cast<double>(level) * height,
           static_cast<double>(run.end - run.begin), height},
          run.colour, {});
    }
  }
}

/// Of one cell of a row.
std::size_t FigureWriter::max_actions(const std::vector<TimelineCell>& row) const {
  std::size_t most = 1;
  for (const TimelineCell& cell : row) most = std::max(most, program_.actions(cell.instruction).size());
  return most;
}

Rgb FigureWriter::colour(RankId rank, const Action& action) const {
  const int chunks = static_cast<int>(program_.pipeline().stages_of(rank).size());
  const Rgb full = colour_of_chunk(options_.palette, action.kind, chunk_of(program_, rank, action), chunks);
  return is_padding(program_.pipeline(), action) ? lighter(full, kPale) : full;
}

/// A line for each rank, from the least to the most in every pixel.
void FigureWriter::write_memory(double top) {
  Bytes most = 1;
  for (const MemoryProfile& profile : options_.memory) most = std::max(most, profile.peak_bytes);
  const auto place = [&](Nanoseconds time, Bytes bytes) {
    const double share = static_cast<double>(bytes) / static_cast<double>(most);
    return Point{x_of(time), top + kMemoryHeight * (1 - share)};
  };
  canvas_.text({left_ - 8, top + 10}, size_words(most), {.anchor = Anchor::end});
  canvas_.text({left_ - 8, top + kMemoryHeight}, "0", {.anchor = Anchor::end});
  const auto ranks = static_cast<double>(options_.memory.size());
  for (std::size_t r = options_.memory.size(); r-- > 0;) {
    std::vector<Point> points = envelope(options_.memory[r].points, place);
    points.push_back({x_of(place_.end), points.back().y});
    canvas_.steps(
        points, lighter(kMemory, 0.75 * static_cast<double>(r) / std::max(1.0, ranks - 1)),
        "memory of rank " + std::to_string(r) + ": peak " + size_words(options_.memory[r].peak_bytes));
  }
}

void FigureWriter::write_cell(RankId rank, const TimelineCell& cell, Box box) {
  const auto actions = program_.actions(cell.instruction);
  box.height /= static_cast<double>(actions.size());
  for (const Action& action : actions) {
    write_action(rank, action, box);
    box.y += box.height;
  }
}

void FigureWriter::write_action(RankId rank, const Action& action, const Box& box) {
  const Rgb fill = colour(rank, action);
  const bool later = on_later_route(action);
  canvas_.rectangle(box, fill, {later ? kBlack : kWhite, later ? 1 : 0.5});
  const std::string label = label_of(action);
  if (label.empty()) return;
  const double size = fitting_size(label, box.width - 2, TextStyle().size);
  if (size < kSmallestLabel || box.height < 10) return;
  canvas_.text({box.x + box.width / 2, box.y + box.height / 2 + 4}, label,
               {.anchor = Anchor::middle, .size = std::floor(size), .colour = text_colour_on(fill)});
}

bool FigureWriter::on_later_route(const Action& action) const {
  if (info(action.kind).microbatch != MicrobatchUse::required) return false;
  if (is_padding(program_.pipeline(), action)) return false;
  return program_.pipeline().route_of(action.mb()).value() > 0;
}

std::string FigureWriter::label_of(const Action& action) const {
  if (info(action.kind).microbatch != MicrobatchUse::required) return std::string(info(action.kind).text);
  if (is_padding(program_.pipeline(), action)) return {};
  std::string label = std::to_string(action.microbatch);
  if (program_.pipeline().slices() > 1) label += "." + std::to_string(action.slice);
  return label;
}

double draw_run(Canvas& canvas, const SvgRun& run, const SvgOptions& options) {
  FigureLegend legend;
  FigureWriter writer(canvas, run, options, {.end = timeline_end(run.trace)});
  const double bottom = writer.write(legend);
  return options.rows_only ? bottom + 1 : writer.write_legend(legend, bottom + 44) + 18;
}

double draw_runs(Canvas& canvas, std::span<const SvgRun> runs, const SvgOptions& options) {
  constexpr double kTitleHeight = 26, kGap = 10;
  Nanoseconds end = 0;
  for (const SvgRun& run : runs) end = std::max(end, timeline_end(run.trace));
  double top = 0;
  if (!options.title.empty()) {
    const TextColumn column = text_column(options.width);
    top =
        kTitleHeight + draw_title(canvas, {column.left, 24, column.width(), kFigureTitleSize}, options.title);
  }
  FigureLegend legend;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const bool is_last = i + 1 == runs.size();
    FigureWriter writer(canvas, runs[i], options, {top, end, is_last});
    top = writer.write(legend) + kGap;
    if (is_last) top = writer.write_legend(legend, top - kGap + 44) + 18;
  }
  return top;
}

}  // namespace ppsim::simulator
