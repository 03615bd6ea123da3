#include <algorithm>
#include <map>
#include <ostream>
#include <sstream>

#include "ppsim/core/ir/padding.hpp"
#include "ppsim/simulator/writers/timeline.hpp"
#include "timeline_rows.hpp"

namespace ppsim::simulator {
namespace {

const char* block_of(OpKind kind) {
  if (kind == OpKind::forward) return "░";
  if (gives_input_gradient(kind)) return "█";
  if (kind == OpKind::backward_weight) return "▒";
  return kind == OpKind::recompute ? "▚" : "▪";
}

constexpr int kIdle = -1;
constexpr const char* kPadding = "·";

class TextWriter {
 public:
  TextWriter(std::ostream& out, const Program& program, const TimedTrace& trace,
             const TextTimelineOptions& options)
      : out_(out),
        program_(program),
        trace_(trace),
        options_(options),
        end_(options.to > 0 ? options.to : timeline_end(trace)) {
    margin_ = std::to_string(program.pipeline().ranks() - 1).size() + 6;  // "rank 0 "
    columns_ = std::max(10, options.width - static_cast<int>(margin_));
  }

  void write() {
    const int ranks = program_.pipeline().ranks();
    const int beyond = options_.ranks > 0 ? std::min(ranks, options_.first_rank + options_.ranks) : ranks;
    for (int r = options_.first_rank; r < beyond; ++r) write_row(RankId(r));
    const std::string first = options_.from > 0 ? time_text(options_.from) : "0";
    const std::string last = time_text(end_);
    const std::size_t gap = as_size(columns_) - std::min(first.size() + last.size(), as_size(columns_));
    out_ << std::string(margin_, ' ') << first << std::string(gap, ' ') << last << '\n';
    write_legend();
  }

 private:
  void write_row(RankId rank) {
    const std::vector<TimelineCell> row = timeline_row(program_, trace_, rank);
    std::string name = "rank " + std::to_string(rank.value());
    name.resize(margin_, ' ');
    out_ << name;
    const std::vector<int> shown = cells_of_columns(row);
    for (std::size_t column = 0; column < shown.size();) {
      std::size_t last = column;
      while (last < shown.size() && shown[last] == shown[column]) ++last;
      if (shown[column] == kIdle) {
        out_ << std::string(last - column, ' ');
      } else {
        write_run(rank, row[as_size(shown[column])].instruction, last - column);
      }
      column = last;
    }
    out_ << '\n';
  }

  /// Index into the row of the cell that takes most of each column, or kIdle.
  [[nodiscard]] std::vector<int> cells_of_columns(const std::vector<TimelineCell>& row) const {
    std::vector<int> shown(as_size(columns_), kIdle);
    if (end_ <= options_.from) return shown;
    std::vector<double> most(shown.size(), 0);
    std::vector<double> busy(shown.size(), 0);
    const double column_time = static_cast<double>(end_ - options_.from) / columns_;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const double begin = std::max(0.0, static_cast<double>(row[i].start - options_.from) / column_time);
      const double end = static_cast<double>(row[i].end - options_.from) / column_time;
      for (auto column = static_cast<std::size_t>(begin);
           column < shown.size() && static_cast<double>(column) < end; ++column) {
        const auto left = static_cast<double>(column);
        const double share = std::min(end, left + 1) - std::max(begin, left);
        busy[column] += share;
        if (share > most[column]) {
          most[column] = share;
          shown[column] = static_cast<int>(i);
        }
      }
    }
    for (std::size_t column = 0; column < shown.size(); ++column) {
      if (busy[column] < 0.5) shown[column] = kIdle;
    }
    return shown;
  }

  void write_run(RankId rank, InstructionId id, std::size_t count) {
    const auto actions = program_.actions(id);
    const auto computes = [&](const Action& one) { return !is_padding(program_.pipeline(), one); };
    const auto found = std::ranges::find_if(actions, computes);
    if (found == actions.end()) {
      shows_padding_ = true;
      write_times(kPadding, count);
      return;
    }
    const Action& action = *found;
    const bool overlaps = program_.instruction(id).form == InstructionForm::overlap;
    std::string label(overlaps ? "FB" : info(action.kind).text);
    shown_.try_emplace(overlaps ? OpKind::overlap : action.kind, action.kind);
    if (info(action.kind).microbatch == MicrobatchUse::required) label += std::to_string(action.microbatch);
    if (label.size() > count) label.clear();
    if (options_.colour) {
      write_coloured(rank, action, label, count);
      return;
    }
    out_ << label;
    write_times(block_of(action.kind), count - label.size());
  }

  void write_times(const char* block, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) out_ << block;
  }

  void write_coloured(RankId rank, const Action& action, std::string label, std::size_t count) {
    const int chunks = static_cast<int>(program_.pipeline().stages_of(rank).size());
    const Rgb back = colour_of_chunk(options_.palette, action.kind, chunk_of(program_, rank, action), chunks);
    label.resize(count, ' ');
    write_escape(out_, 48, back);
    write_escape(out_, 38, text_colour_on(back));
    out_ << label << "\033[0m";
  }

  /// The meanings of the letters, as many on a line as fit; no word is broken.
  void write_legend() {
    std::size_t column = 0;
    // `room`: characters of what must not be parted from it, the gap before it included.
    const auto word = [&](const std::string& text, std::size_t gap, std::size_t length, std::size_t room) {
      const bool fits = column > 0 && column + room <= as_size(columns_);
      if (column > 0 && !fits) out_ << '\n';
      out_ << std::string(fits ? gap : margin_, ' ') << text;
      column = (fits ? column + gap : 0) + length;
    };
    for (const auto& [kind, drawn] : shown_) {
      const std::string letters(kind == OpKind::overlap ? "FB" : info(kind).text);
      const std::string_view meaning = info(kind).meaning;
      word(swatch(letters, drawn), 2, letters.size() + 1, letters.size() + meaning.size() + 4);
      std::istringstream words{std::string(meaning)};
      for (std::string one; words >> one;) word(one, 1, one.size(), one.size() + 1);
    }
    if (shows_padding_) word(std::string(kPadding) + " padding", 2, 9, 9 + 2);
    if (!shown_.empty() || shows_padding_) out_ << '\n';
  }

  /// Letters as a cell has them, one character wider.
  [[nodiscard]] std::string swatch(const std::string& letters, OpKind drawn) {
    if (!options_.colour) return letters + block_of(drawn);
    std::ostringstream text;
    const Rgb back = colour_of(options_.palette, drawn);
    write_escape(text, 48, back);
    write_escape(text, 38, text_colour_on(back));
    text << letters << " \033[0m";
    return text.str();
  }

  static void write_escape(std::ostream& out, int layer, Rgb colour) {
    out << "\033[" << layer << ";2;" << int{colour.red} << ';' << int{colour.green} << ';' << int{colour.blue}
        << 'm';
  }

  std::ostream& out_;
  const Program& program_;
  const TimedTrace& trace_;
  const TextTimelineOptions& options_;
  Nanoseconds end_;
  std::size_t margin_ = 0;
  int columns_ = 0;
  bool shows_padding_ = false;
  std::map<OpKind, OpKind> shown_;  ///< kinds in the picture, and the kind as which each is drawn
};

}  // namespace

void write_text_timeline(std::ostream& out, const Program& program, const TimedTrace& trace,
                         const TextTimelineOptions& options) {
  std::ostringstream picture;
  TextWriter(picture, program, trace, options).write();
  out << picture.str();
}

}  // namespace ppsim::simulator
