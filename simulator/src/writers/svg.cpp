#include <algorithm>
#include <array>
#include <cmath>
#include <iomanip>
#include <ostream>
#include <set>
#include <sstream>

#include "ppsim/core/io/text.hpp"
#include "ppsim/simulator/writers/timeline.hpp"
#include "timeline_rows.hpp"

namespace ppsim::simulator {
namespace {

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

/// A rectangle in pixels.
struct Box {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};

void write_document(std::ostream& out, const SvgOptions& options, double height, const std::string& body) {
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << options.width << "\" height=\"" << height
      << "\" viewBox=\"0 0 " << options.width << ' ' << height << "\" font-family=\""
      << markup_text(options.font)
      << "\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
      << body << "</svg>\n";
}

/// The entries of the legend for all runs of a picture.
struct Legend {
  std::set<OpKind> kinds;
  bool chunks = false;
  bool routes = false;
};

/// Where a run stands in a picture.
struct Place {
  double top = 0;       ///< of its title
  Nanoseconds end = 0;  ///< of the time axis
  bool is_last = true;  ///< the times of the axis are below it
};

class SvgWriter {
 public:
  SvgWriter(const SvgRun& run, const SvgOptions& options, const Place& place, Legend& legend)
      : title_(run.title),
        program_(run.program),
        trace_(run.trace),
        options_(options),
        place_(place),
        end_(place.end),
        legend_(legend) {
    top_ = place.top + (options.rows_only ? 1 : title_.empty() ? 10 : 34);
    if (options.rows_only) left_ = right_ = 1;
    for (int r = 0; r < program_.pipeline().ranks(); ++r)
      legend.chunks = legend.chunks || program_.pipeline().stages_of(RankId(r)).size() > 1;
    legend.routes = legend.routes || program_.pipeline().spec().routes.size() > 1;
  }

  /// Returns where it ends.
  double write() {
    const int ranks = program_.pipeline().ranks();
    const double rows = top_ + ranks * options_.row_height;
    const double bottom = rows + (options_.memory.empty() ? 0 : kMemoryHeight + kMemoryGap);
    if (!options_.rows_only) write_frame(rows, bottom);
    for (int r = 0; r < ranks; ++r) write_row(RankId(r));
    if (!options_.memory.empty()) write_memory(rows + kMemoryGap);
    return bottom;
  }

  /// In as many lines as it takes. Returns where the last one is.
  double write_legend(double y) {
    constexpr double kLine = 18;
    double x = left_;
    const auto entry = [&](Rgb fill, const char* stroke, const std::string& text) {
      const double width = 34 + kDigitWidth * static_cast<double>(text.size());
      if (x > left_ && x + width > options_.width - right_) {
        x = left_;
        y += kLine;
      }
      body_ << "<rect x=\"" << x << "\" y=\"" << y - 10 << "\" width=\"13\" height=\"13\" fill=\""
            << hex_text(fill) << "\" stroke=\"" << stroke << "\"/><text x=\"" << x + 18 << "\" y=\"" << y + 1
            << "\">" << text << "</text>\n";
      x += width;
    };
    for (const OpKind kind : legend_.kinds) {
      entry(colour_of(options_.palette, kind), "#ffffff",
            std::string(info(kind).text) + " " + std::string(info(kind).meaning));
    }
    if (legend_.chunks) entry({0xD0, 0xD0, 0xD0}, "#ffffff", "lighter: later chunk of the rank");
    if (legend_.routes) entry({255, 255, 255}, "#000000", "border: later route");
    entry({255, 255, 255}, "#bbbbbb", "idle");
    if (!options_.memory.empty()) entry({0x1B, 0x3A, 0x6B}, "#ffffff", "memory; lighter lines: later ranks");
    if (options_.unit_axis) entry({255, 255, 255}, "#ffffff", "time in units of the costs");
    return y;
  }

  [[nodiscard]] std::string body() const { return body_.str(); }

 private:
  static constexpr double kDigitWidth = 6.2;
  static constexpr int kLabelHeight = 12;
  static constexpr double kNarrow = 2;  // pixels of a cell that still has a border
  static constexpr double kMemoryHeight = 110, kMemoryGap = 14;

  /// Title, axis and the names of the ranks.
  void write_frame(double rows, double bottom) {
    if (!title_.empty()) {
      body_ << "<text x=\"" << left_ << "\" y=\"" << place_.top + 20
            << "\" font-size=\"14\" font-weight=\"bold\">" << markup_text(title_) << "</text>\n";
    }
    write_grid(rows, bottom);
    const int every = (kLabelHeight + options_.row_height - 1) / options_.row_height;
    for (int r = 0; r < program_.pipeline().ranks(); r += every) {
      body_ << "<text x=\"" << left_ - 8 << "\" y=\"" << top_of(RankId(r)) + options_.row_height / 2.0 + 4
            << "\" text-anchor=\"end\">rank " << r << "</text>\n";
    }
  }

  [[nodiscard]] double top_of(RankId rank) const { return top_ + rank.value() * options_.row_height; }

  [[nodiscard]] double x_of(Nanoseconds time) const {
    if (end_ == 0) return left_;
    return left_ + (options_.width - left_ - right_) * static_cast<double>(time) / static_cast<double>(end_);
  }

  /// A step between times whose texts do not run into each other.
  [[nodiscard]] Nanoseconds grid_step() const {
    constexpr double kGap = 10;
    for (int most = 12; most > 1; --most) {
      const Nanoseconds step = axis_step(end_, most);
      std::size_t longest = 0;
      for (Nanoseconds time = 0; time <= end_; time += step)
        longest = std::max(longest, axis_text(time).size());
      if (x_of(step) - x_of(0) >= kDigitWidth * static_cast<double>(longest) + kGap) return step;
    }
    return axis_step(end_, 1);
  }

  /// The times are below everything, the lines go through all of it.
  void write_grid(double rows, double bottom) {
    const Nanoseconds step = grid_step();
    for (Nanoseconds time = 0; time <= end_; time += step) {
      body_ << "<line x1=\"" << x_of(time) << "\" y1=\"" << top_ << "\" x2=\"" << x_of(time) << "\" y2=\""
            << bottom + 4 << "\" stroke=\"#d8d8d8\"/>\n";
      if (!place_.is_last) continue;
      body_ << "<text x=\"" << x_of(time) << "\" y=\"" << bottom + 17
            << "\" text-anchor=\"middle\" fill=\"#444444\">" << axis_text(time) << "</text>\n";
    }
    if (options_.memory.empty()) return;
    body_ << "<line x1=\"" << left_ << "\" y1=\"" << rows + kMemoryGap << "\" x2=\""
          << options_.width - right_ << "\" y2=\"" << rows + kMemoryGap << "\" stroke=\"#d8d8d8\"/>\n";
  }

  [[nodiscard]] std::string axis_text(Nanoseconds time) const {
    if (!options_.unit_axis) return time_text(time);
    std::ostringstream text;
    text << static_cast<double>(time) / 1e6;
    return text.str();
  }

  void write_row(RankId rank) {
    const std::vector<TimelineCell> row = timeline_row(program_, trace_, rank);
    write_mixtures(rank, row);
    for (const TimelineCell& cell : row) {
      const Box box{x_of(cell.start), top_of(rank) + 1, x_of(cell.end) - x_of(cell.start),
                    options_.row_height - 2.0};
      if (box.width < kNarrow) continue;
      if (options_.rows_only) {
        write_cell(rank, cell, box);
        continue;
      }
      body_ << "<g><title>" << markup_text(actions_text(program_, cell.instruction)) << " "
            << time_text(cell.start) << " - " << time_text(cell.end) << "</title>";
      write_cell(rank, cell, box);
      body_ << "</g>\n";
    }
  }

  /// The narrow cells of a row, pixel by pixel.
  void write_mixtures(RankId rank, const std::vector<TimelineCell>& row) {
    const std::size_t levels = max_actions(row);
    for (std::size_t level = 0; level < levels; ++level) {
      PixelMixture pixels(static_cast<std::size_t>(options_.width) + 1);
      for (const TimelineCell& cell : row) {
        const double left = x_of(cell.start), right = x_of(cell.end);
        if (right - left >= kNarrow) continue;
        const auto actions = program_.actions(cell.instruction);
        const Action& action = actions[level * actions.size() / levels];
        pixels.add(left, right, colour(rank, action));
        legend_.kinds.insert(action.kind);
      }
      const double height = (options_.row_height - 2.0) / static_cast<double>(levels);
      for (const PixelMixture::Run& run : pixels.runs()) {
        body_ << "<rect x=\"" << run.begin << "\" y=\""
              << top_of(rank) + 1 + static_cast<double>(level) * height << "\" width=\""
              << run.end - run.begin << "\" height=\"" << height << "\" fill=\"" << hex_text(run.colour)
              << "\"/>\n";
      }
    }
  }

  /// Of one cell of a row.
  [[nodiscard]] std::size_t max_actions(const std::vector<TimelineCell>& row) const {
    std::size_t most = 1;
    for (const TimelineCell& cell : row) most = std::max(most, program_.actions(cell.instruction).size());
    return most;
  }

  [[nodiscard]] Rgb colour(RankId rank, const Action& action) const {
    const int chunks = static_cast<int>(program_.pipeline().stages_of(rank).size());
    return colour_of_chunk(options_.palette, action.kind, chunk_of(program_, rank, action), chunks);
  }

  /// A line for each rank, from the least to the most in every pixel.
  void write_memory(double top) {
    Bytes most = 1;
    for (const MemoryProfile& profile : options_.memory) most = std::max(most, profile.peak_bytes);
    const auto ranks = static_cast<double>(options_.memory.size());
    const auto y_of = [&](Bytes bytes) {
      return top + kMemoryHeight * (1 - static_cast<double>(bytes) / static_cast<double>(most));
    };
    body_ << "<text x=\"" << left_ - 8 << "\" y=\"" << top + 10 << "\" text-anchor=\"end\">"
          << size_words(most) << "</text>\n<text x=\"" << left_ - 8 << "\" y=\"" << top + kMemoryHeight
          << "\" text-anchor=\"end\">0</text>\n";
    for (std::size_t r = options_.memory.size(); r-- > 0;) {
      const Rgb line = lighter({0x1B, 0x3A, 0x6B}, 0.75 * static_cast<double>(r) / std::max(1.0, ranks - 1));
      body_ << "<path fill=\"none\" stroke=\"" << hex_text(line) << "\" d=\"";
      write_envelope(options_.memory[r].points, y_of);
      body_ << "\"><title>memory of rank " << r << ": peak " << size_words(options_.memory[r].peak_bytes)
            << "</title></path>\n";
    }
  }

  /// Steps, of which only the least and the most of a pixel are written.
  template <class Height>
  void write_envelope(const std::vector<MemoryPoint>& points, const Height& y_of) {
    body_ << 'M' << left_ << ' ' << y_of(0);
    for (std::size_t i = 0; i < points.size();) {
      const double x = std::round(x_of(points[i].at.time) * 2) / 2;
      Bytes least = points[i].bytes, most = least, last = least;
      for (; i < points.size() && std::round(x_of(points[i].at.time) * 2) / 2 == x; ++i) {
        last = points[i].bytes;
        least = std::min(least, last);
        most = std::max(most, last);
      }
      body_ << 'H' << x << 'V' << y_of(most);
      if (least < most && last != most) body_ << 'V' << y_of(least);
      if (last != least && last != most) body_ << 'V' << y_of(last);
      if (last == most && least < most) body_ << 'V' << y_of(least) << 'V' << y_of(most);
    }
    body_ << 'H' << x_of(end_);
  }

  static std::string size_words(Bytes bytes) {
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

  void write_cell(RankId rank, const TimelineCell& cell, Box box) {
    const auto actions = program_.actions(cell.instruction);
    box.height /= static_cast<double>(actions.size());
    for (const Action& action : actions) {
      write_action(rank, action, box);
      box.y += box.height;
    }
  }

  void write_action(RankId rank, const Action& action, const Box& box) {
    const Rgb fill = colour(rank, action);
    legend_.kinds.insert(action.kind);
    body_ << "<rect x=\"" << box.x << "\" y=\"" << box.y << "\" width=\"" << box.width << "\" height=\""
          << box.height << "\" fill=\"" << hex_text(fill) << "\" stroke=\""
          << (on_later_route(action) ? "#000000" : "#ffffff") << "\" stroke-width=\""
          << (on_later_route(action) ? 1 : 0.5) << "\"/>";
    const std::string label = label_of(action);
    if (box.width < kDigitWidth * static_cast<double>(label.size()) + 2 || box.height < 10) return;
    body_ << "<text x=\"" << box.x + box.width / 2 << "\" y=\"" << box.y + box.height / 2 + 4
          << "\" text-anchor=\"middle\" fill=\"" << hex_text(text_colour_on(fill)) << "\">" << label
          << "</text>" << (options_.rows_only ? "\n" : "");
  }

  [[nodiscard]] bool on_later_route(const Action& action) const {
    if (info(action.kind).microbatch != MicrobatchUse::required) return false;
    return program_.pipeline().route_of(action.mb()).value() > 0;
  }

  [[nodiscard]] std::string label_of(const Action& action) const {
    if (info(action.kind).microbatch != MicrobatchUse::required) return std::string(info(action.kind).text);
    std::string label = std::to_string(action.microbatch);
    if (program_.pipeline().slices() > 1) label += "." + std::to_string(action.slice);
    return label;
  }

  std::ostringstream body_;  // a stream of its own: numbers do not depend on the format of the caller's
  std::string title_;
  const Program& program_;
  const TimedTrace& trace_;
  const SvgOptions& options_;
  Place place_;
  Nanoseconds end_;
  Legend& legend_;
  double left_ = 60;
  double right_ = 20;
  double top_ = 0;
};

}  // namespace

void write_svg(std::ostream& out, const Program& program, const TimedTrace& trace,
               const SvgOptions& options) {
  Legend legend;
  SvgWriter writer({options.title, program, trace}, options, {.end = timeline_end(trace)}, legend);
  const double bottom = writer.write();
  const double height = options.rows_only ? bottom + 1 : writer.write_legend(bottom + 44) + 18;
  write_document(out, options, height, writer.body());
}

void write_svg(std::ostream& out, std::span<const SvgRun> runs, const SvgOptions& options) {
  constexpr double kTitleHeight = 26, kGap = 10;
  Nanoseconds end = 0;
  for (const SvgRun& run : runs) end = std::max(end, timeline_end(run.trace));
  std::ostringstream body;
  double top = 0;
  if (!options.title.empty()) {
    body << "<text x=\"60\" y=\"24\" font-size=\"16\" font-weight=\"bold\">" << markup_text(options.title)
         << "</text>\n";
    top = kTitleHeight;
  }
  Legend legend;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const bool is_last = i + 1 == runs.size();
    SvgWriter writer(runs[i], options, {top, end, is_last}, legend);
    top = writer.write() + kGap;
    if (is_last) top = writer.write_legend(top - kGap + 44) + 18;
    body << writer.body();
  }
  write_document(out, options, top, body.str());
}

}  // namespace ppsim::simulator
