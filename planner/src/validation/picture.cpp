#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <sstream>

#include "ppsim/planner/validation_page.hpp"
#include "ppsim/simulator/writers/timeline.hpp"

namespace ppsim::planner {
namespace {

/// A class of rows drawn alike. Sources differ in shape and colour, mixtures of experts are hollow.
struct PointSeries {
  MeasurementKind kind;
  bool is_moe;
  const char* name;
  const char* colour;
};

constexpr const char* kBlack = "#222222";
constexpr const char* kBlue = "#0072b2";
constexpr const char* kGreen = "#00805c";
constexpr const char* kOrange = "#d55e00";
constexpr const char* kPurple = "#a8508a";
constexpr const char* kGrey = "#6b6b6b";
constexpr const char* kWideBand = "#dde4ec";    ///< within 10 %
constexpr const char* kNarrowBand = "#b7c5d4";  ///< within 5 %

constexpr auto kSeries = std::to_array<PointSeries>({
    {MeasurementKind::stage_times, false, "stage times given", kBlack},
    {MeasurementKind::published, false, "published", kBlue},
    {MeasurementKind::published, true, "published, MoE", kBlue},
    {MeasurementKind::vtrain, false, "vTrain", kOrange},
    {MeasurementKind::vtrain, true, "vTrain, MoE", kOrange},
    {MeasurementKind::llm_foundry, false, "llm-foundry", kGrey},
    {MeasurementKind::one_node, false, "B200 node", kGreen},
    {MeasurementKind::one_node, true, "B200 node, MoE", kGreen},
    {MeasurementKind::megatron_bridge, false, "Megatron-Bridge", kPurple},
    {MeasurementKind::megatron_bridge, true, "Megatron-Bridge, MoE", kPurple},
});

constexpr double kLeft = 70;
constexpr double kTop = 64;
constexpr double kSide = 480;
constexpr double kRight = kLeft + kSide;
constexpr double kBottom = kTop + kSide;
constexpr double kLegend = kRight + 24;
constexpr double kWidth = kLegend + 200;
constexpr double kErrorTop = kBottom + 72;
constexpr double kErrorMiddle = kErrorTop + 110;
constexpr double kErrorBottom = kErrorTop + 220;
constexpr double kHeight = kErrorBottom + 56;

/// The same digits whatever the machine.
std::string number(double value, const char* format = "%.1f") {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

bool is_drawn(const Comparison& one) { return one.simulated && *one.simulated > 0 && one.measured > 0; }

bool belongs(const MeasuredRow& row, const PointSeries& series) {
  const auto* run = std::get_if<RunDescription>(&row.run);
  return row.kind == series.kind && (run != nullptr && run->is_moe()) == series.is_moe;
}

/// 1, 2 or 5 times a power of ten: `index` 0 is 1, 1 is 2, 2 is 5, 3 is 10.
double round_number(int index) {
  constexpr std::array<double, 3> kDigits = {1, 2, 5};
  const int decade = index >= 0 ? index / 3 : (index - 2) / 3;
  return kDigits[as_size(index - 3 * decade)] * std::pow(10.0, decade);
}

/// A logarithmic axis between round numbers.
struct Axis {
  int first = 0;
  int last = 3;

  /// How far along the axis, from 0 to 1.
  [[nodiscard]] double share(double value) const {
    return std::log(value / round_number(first)) / std::log(round_number(last) / round_number(first));
  }
};

Axis axis_over(const std::vector<double>& values) {
  if (values.empty()) return {};
  const auto [least, most] = std::ranges::minmax(values);
  Axis axis{.first = 3 * static_cast<int>(std::floor(std::log10(least))), .last = 0};
  while (round_number(axis.first + 1) <= least) ++axis.first;
  axis.last = axis.first + 1;
  while (round_number(axis.last) < most) ++axis.last;
  return axis;
}

std::string marker(MeasurementKind kind, double x, double y) {
  const auto at = [&](double dx, double dy) { return number(x + dx) + " " + number(y + dy); };
  switch (kind) {
    case MeasurementKind::stage_times:
      return "M" + at(-5, -5) + "L" + at(5, 5) + "M" + at(-5, 5) + "L" + at(5, -5);
    case MeasurementKind::published:
      return "M" + at(-4, 0) + "a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z";
    case MeasurementKind::vtrain:
      return "M" + at(0, -5) + "L" + at(4.5, 3.5) + "L" + at(-4.5, 3.5) + "z";
    case MeasurementKind::llm_foundry:
      return "M" + at(-4, 0) + "h8M" + at(0, -4) + "v8";
    case MeasurementKind::one_node:
      return "M" + at(-3.7, -3.7) + "h7.4v7.4h-7.4z";
    case MeasurementKind::megatron_bridge:
      return "M" + at(0, -5.2) + "L" + at(5.2, 0) + "L" + at(0, 5.2) + "L" + at(-5.2, 0) + "z";
  }
  return {};
}

class Picture {
 public:
  explicit Picture(const Validation& validation) : validation_(validation) {
    std::vector<double> seconds;
    double largest = 20;
    for (const Comparison& one : validation.steps.comparisons) {
      if (!is_drawn(one)) continue;
      seconds.push_back(*one.simulated);
      seconds.push_back(one.measured);
      largest = std::max(largest, std::abs(one.error_percent()));
    }
    axis_ = axis_over(seconds);
    drawn_ = seconds.size() / 2;
    int step = 3;
    while (4 * round_number(step) < largest) ++step;
    error_step_ = round_number(step);
    error_steps_ = static_cast<int>(std::ceil(largest / error_step_));
  }

  std::string text() {
    write_head();
    write_bands();
    write_axes();
    write_error_axes();
    for (const PointSeries& series : kSeries) write_points(series);
    write_legend();
    out_ << "</svg>\n";
    return out_.str();
  }

 private:
  [[nodiscard]] double x_of(double seconds) const { return kLeft + kSide * axis_.share(seconds); }
  [[nodiscard]] double y_of(double seconds) const { return kBottom - kSide * axis_.share(seconds); }
  [[nodiscard]] double y_of_error(double percent) const {
    return kErrorMiddle - (kErrorMiddle - kErrorTop) * percent / (error_steps_ * error_step_);
  }

  void write_head() {
    out_ << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << kWidth << ' ' << kHeight
         << "\" width=\"" << kWidth << "\" height=\"" << kHeight
         << "\" role=\"img\" aria-labelledby=\"title description\" "
            "font-family=\"Helvetica, Arial, sans-serif\" font-size=\"12\" fill=\"#222222\">\n"
         << "<title id=\"title\">Simulated against measured time of a step</title>\n"
         << "<desc id=\"description\">" << drawn_ << " runs on logarithmic axes. "
         << "The closer a point is to the diagonal, the smaller its error; "
         << number(100 * validation_.steps.all.within_10_percent, "%.0f")
         << " % of the simulated steps are within 10 % of the measured ones.</desc>\n"
         << "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
         << "<text x=\"" << kLeft << "\" y=\"28\" font-size=\"16\" font-weight=\"bold\">"
         << "Simulated against measured time of a step</text>\n"
         << "<text x=\"" << kLeft << "\" y=\"48\" fill=\"#444444\">"
         << "above the diagonal the simulation is too slow, below it too fast</text>\n"
         << "<clipPath id=\"plot\"><rect x=\"" << kLeft << "\" y=\"" << kTop << "\" width=\"" << kSide
         << "\" height=\"" << kSide << "\"/></clipPath>\n";
  }

  /// Where the simulated step is within so much of the measured one.
  void write_band(double error, const char* fill) {
    const double low = round_number(axis_.first);
    const double high = round_number(axis_.last);
    out_ << "<path clip-path=\"url(#plot)\" fill=\"" << fill << "\" d=\"M" << number(x_of(low)) << ' '
         << number(y_of(low * (1 + error))) << 'L' << number(x_of(high)) << ' '
         << number(y_of(high * (1 + error))) << 'L' << number(x_of(high)) << ' '
         << number(y_of(high * (1 - error))) << 'L' << number(x_of(low)) << ' '
         << number(y_of(low * (1 - error))) << "z\"/>\n";
  }

  void write_bands() {
    write_band(0.10, kWideBand);
    write_band(0.05, kNarrowBand);
    out_ << "<path stroke=\"#667788\" d=\"M" << kLeft << ' ' << kBottom << 'L' << kRight << ' ' << kTop
         << "\"/>\n";
  }

  void write_label_left(double y, const std::string& text) {
    out_ << "<text x=\"" << kLeft - 8 << "\" y=\"" << number(y + 4) << "\" text-anchor=\"end\">" << text
         << "</text>\n";
  }

  /// The line of a measured time, and the time below it.
  void write_vertical(double seconds, double top, double bottom) {
    const std::string x = number(x_of(seconds));
    out_ << "<path stroke=\"#000000\" stroke-opacity=\"0.12\" d=\"M" << x << ' ' << top << 'V' << bottom
         << "\"/>\n<text x=\"" << x << "\" y=\"" << bottom + 18 << "\" text-anchor=\"middle\">"
         << number(seconds, "%g") << "</text>\n";
  }

  void write_frame(double top, double bottom, const char* quantity) {
    out_ << "<rect x=\"" << kLeft << "\" y=\"" << top << "\" width=\"" << kSide << "\" height=\""
         << bottom - top << "\" fill=\"none\" stroke=\"#888888\"/>\n<text x=\"" << kLeft + kSide / 2
         << "\" y=\"" << bottom + 38
         << "\" text-anchor=\"middle\">measured, s</text>\n<text transform=\"translate(20 "
         << (top + bottom) / 2 << ") rotate(-90)\" text-anchor=\"middle\">" << quantity << "</text>\n";
  }

  void write_axes() {
    for (int i = axis_.first; i <= axis_.last; ++i) {
      const double seconds = round_number(i);
      write_vertical(seconds, kTop, kBottom);
      out_ << "<path stroke=\"#000000\" stroke-opacity=\"0.12\" d=\"M" << kLeft << ' '
           << number(y_of(seconds)) << 'H' << kRight << "\"/>\n";
      write_label_left(y_of(seconds), number(seconds, "%g"));
    }
    write_frame(kTop, kBottom, "simulated, s");
  }

  void write_error_band(double percent, const char* fill) {
    out_ << "<rect x=\"" << kLeft << "\" y=\"" << number(y_of_error(percent)) << "\" width=\"" << kSide
         << "\" height=\"" << number(y_of_error(-percent) - y_of_error(percent)) << "\" fill=\"" << fill
         << "\"/>\n";
  }

  /// The lower plot: the error, over the measured time of the upper one.
  void write_error_axes() {
    write_error_band(10, kWideBand);
    write_error_band(5, kNarrowBand);
    for (int i = -error_steps_; i <= error_steps_; ++i) {
      const double percent = i * error_step_;
      const std::string y = number(y_of_error(percent));
      out_ << "<path stroke=\"#000000\" stroke-opacity=\"" << (i == 0 ? 0.5 : 0.12) << "\" d=\"M" << kLeft
           << ' ' << y << 'H' << kRight << "\"/>\n";
      write_label_left(y_of_error(percent), number(percent, i == 0 ? "%.0f" : "%+.0f"));
    }
    for (int i = axis_.first; i <= axis_.last; ++i) write_vertical(round_number(i), kErrorTop, kErrorBottom);
    write_frame(kErrorTop, kErrorBottom, "error, %");
  }

  void write_marker(const PointSeries& series, double x, double y) {
    out_ << "<path stroke=\"" << series.colour << "\" stroke-width=\"1.4\" fill=\""
         << (series.is_moe ? "#ffffff" : series.colour) << "\" fill-opacity=\"0.6\" d=\""
         << marker(series.kind, x, y) << "\">";
  }

  void write_points(const PointSeries& series) {
    for (const Comparison& one : validation_.steps.comparisons) {
      const MeasuredRow& row = validation_.rows[one.row];
      if (!is_drawn(one) || !belongs(row, series)) continue;
      const std::string title = "<title>" + markup_text(row.source) + ", " + markup_text(row.label) +
                                ": simulated " + number(*one.simulated, "%.3f") + " s, measured " +
                                number(one.measured, "%.3f") + " s, " + number(one.error_percent(), "%+.1f") +
                                " %</title></path>\n";
      write_marker(series, x_of(one.measured), y_of(*one.simulated));
      out_ << title;
      write_marker(series, x_of(one.measured), y_of_error(one.error_percent()));
      out_ << title;
    }
  }

  [[nodiscard]] ErrorStatistics errors_of(const PointSeries& series) const {
    std::vector<double> errors;
    for (const Comparison& one : validation_.steps.comparisons) {
      if (is_drawn(one) && belongs(validation_.rows[one.row], series)) errors.push_back(one.error_percent());
    }
    return error_statistics(errors);
  }

  /// A swatch of a band.
  void write_band_entry(double& y, const char* fill, const char* text) {
    out_ << "<rect x=\"" << kLegend - 7 << "\" y=\"" << y - 7 << "\" width=\"14\" height=\"14\" fill=\""
         << fill << "\"/><text x=\"" << kLegend + 16 << "\" y=\"" << y + 4 << "\">" << text << "</text>\n";
    y += 22;
  }

  void write_legend() {
    double y = kTop + 10;
    for (const PointSeries& series : kSeries) {
      const ErrorStatistics errors = errors_of(series);
      if (errors.n == 0) continue;
      write_marker(series, kLegend, y);
      out_ << "</path><text x=\"" << kLegend + 16 << "\" y=\"" << y + 4 << "\">" << series.name
           << "</text>\n<text x=\"" << kLegend + 16 << "\" y=\"" << y + 19 << "\" fill=\"#555555\">"
           << errors.n << (errors.n == 1 ? " run, " : " runs, ") << number(errors.mean_percent)
           << " % in the mean</text>\n";
      y += 40;
    }
    write_band_entry(y, kNarrowBand, "within 5 %");
    write_band_entry(y, kWideBand, "within 10 %");
  }

  const Validation& validation_;
  Axis axis_;
  std::size_t drawn_ = 0;
  double error_step_ = 10;  ///< between lines, in %
  int error_steps_ = 1;     ///< to either side
  std::ostringstream out_;
};

}  // namespace

std::string validation_picture(const Validation& validation) { return Picture(validation).text(); }

}  // namespace ppsim::planner
