#include <algorithm>
#include <ostream>
#include <set>
#include <sstream>

#include "ppsim/core/io/text.hpp"
#include "ppsim/simulator/writers/timeline.hpp"
#include "timeline_rows.hpp"

namespace ppsim::simulator {
namespace {

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

/// A rectangle in pixels.
struct Box {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};

class SvgWriter {
 public:
  SvgWriter(std::ostream& out, const Program& program, const TimedTrace& trace, const SvgOptions& options)
      : out_(out), program_(program), trace_(trace), options_(options), end_(timeline_end(trace)) {
    if (options.rows_only) {
      left_ = right_ = 1;
      top_ = 1;
    } else {
      top_ = options.title.empty() ? 10 : 34;
    }
  }

  void write() {
    const int ranks = program_.pipeline().ranks();
    const double bottom = top_ + ranks * options_.row_height;
    out_ << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << options_.width << "\" height=\""
         << bottom + (options_.rows_only ? 1 : 62)
         << "\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"11\">\n"
         << "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
    if (!options_.rows_only) write_frame(bottom);
    for (int r = 0; r < ranks; ++r) write_row(RankId(r));
    if (!options_.rows_only) write_legend(bottom + 44);
    out_ << "</svg>\n";
  }

 private:
  static constexpr double kDigitWidth = 6.2;

  /// Title, axis and the names of the ranks.
  void write_frame(double bottom) {
    if (!options_.title.empty()) {
      out_ << "<text x=\"" << left_ << "\" y=\"20\" font-size=\"14\" font-weight=\"bold\">"
           << escaped(options_.title) << "</text>\n";
    }
    write_grid(bottom);
    for (int r = 0; r < program_.pipeline().ranks(); ++r) {
      out_ << "<text x=\"" << left_ - 8 << "\" y=\"" << top_of(RankId(r)) + options_.row_height / 2.0 + 4
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
        longest = std::max(longest, time_text(time).size());
      if (x_of(step) - x_of(0) >= kDigitWidth * static_cast<double>(longest) + kGap) return step;
    }
    return axis_step(end_, 1);
  }

  void write_grid(double bottom) {
    const Nanoseconds step = grid_step();
    for (Nanoseconds time = 0; time <= end_; time += step) {
      out_ << "<line x1=\"" << x_of(time) << "\" y1=\"" << top_ << "\" x2=\"" << x_of(time) << "\" y2=\""
           << bottom + 4 << "\" stroke=\"#d8d8d8\"/>\n<text x=\"" << x_of(time) << "\" y=\"" << bottom + 17
           << "\" text-anchor=\"middle\" fill=\"#444444\">" << time_text(time) << "</text>\n";
    }
  }

  void write_row(RankId rank) {
    for (const TimelineCell& cell : timeline_row(program_, trace_, rank)) {
      if (cell.end == cell.start) continue;
      const Box box{x_of(cell.start), top_of(rank) + 1, x_of(cell.end) - x_of(cell.start),
                    options_.row_height - 2.0};
      if (options_.rows_only) {
        write_cell(rank, cell, box);
        continue;
      }
      out_ << "<g><title>" << escaped(actions_text(program_, cell.instruction)) << " "
           << time_text(cell.start) << " - " << time_text(cell.end) << "</title>";
      write_cell(rank, cell, box);
      out_ << "</g>\n";
    }
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
    const int chunks = static_cast<int>(program_.pipeline().stages_of(rank).size());
    const Rgb fill = colour_of_chunk(options_.palette, action.kind, chunk_of(program_, rank, action), chunks);
    used_.insert(action.kind);
    out_ << "<rect x=\"" << box.x << "\" y=\"" << box.y << "\" width=\"" << box.width << "\" height=\""
         << box.height << "\" fill=\"" << hex_text(fill) << "\" stroke=\""
         << (on_later_route(action) ? "#000000" : "#ffffff") << "\" stroke-width=\""
         << (on_later_route(action) ? 1 : 0.5) << "\"/>";
    const std::string label = label_of(action);
    if (box.width < kDigitWidth * static_cast<double>(label.size()) + 2 || box.height < 10) return;
    out_ << "<text x=\"" << box.x + box.width / 2 << "\" y=\"" << box.y + box.height / 2 + 4
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

  void write_legend(double y) {
    double x = left_;
    const auto entry = [&](Rgb fill, const char* stroke, const std::string& text) {
      out_ << "<rect x=\"" << x << "\" y=\"" << y - 10 << "\" width=\"13\" height=\"13\" fill=\""
           << hex_text(fill) << "\" stroke=\"" << stroke << "\"/><text x=\"" << x + 18 << "\" y=\"" << y + 1
           << "\">" << text << "</text>\n";
      x += 34 + kDigitWidth * static_cast<double>(text.size());
    };
    for (const OpKind kind : used_) entry(colour_of(options_.palette, kind), "#ffffff", meaning_of(kind));
    std::size_t chunks = 1;
    for (int r = 0; r < program_.pipeline().ranks(); ++r) {
      chunks = std::max(chunks, program_.pipeline().stages_of(RankId(r)).size());
    }
    if (chunks > 1) entry({0xD0, 0xD0, 0xD0}, "#ffffff", "lighter: later chunk of the rank");
    if (program_.pipeline().spec().routes.size() > 1)
      entry({255, 255, 255}, "#000000", "border: later route");
    entry({255, 255, 255}, "#bbbbbb", "idle");
  }

  static std::string meaning_of(OpKind kind) {
    std::string text(info(kind).text);
    if (kind == OpKind::forward) return text + " forward";
    if (kind == OpKind::backward) return text + " backward";
    if (kind == OpKind::backward_input) return text + " backward, input";
    if (kind == OpKind::backward_weight) return text + " backward, weights";
    if (kind == OpKind::recompute) return text + " recompute";
    return text;
  }

  std::ostream& out_;
  const Program& program_;
  const TimedTrace& trace_;
  const SvgOptions& options_;
  Nanoseconds end_;
  double left_ = 60;
  double right_ = 20;
  double top_ = 0;
  std::set<OpKind> used_;
};

}  // namespace

void write_svg(std::ostream& out, const Program& program, const TimedTrace& trace,
               const SvgOptions& options) {
  // A stream of its own: numbers do not depend on the format of the caller's.
  std::ostringstream picture;
  SvgWriter(picture, program, trace, options).write();
  out << picture.str();
}

}  // namespace ppsim::simulator
