#include <ostream>

#include "figure.hpp"
#include "pdf_canvas.hpp"
#include "svg_canvas.hpp"

namespace ppsim::simulator {

void write_svg(std::ostream& out, const Program& program, const TimedTrace& trace,
               const SvgOptions& options) {
  SvgCanvas canvas;
  const double height = draw_run(canvas, {options.title, program, trace}, options);
  canvas.finish(out, options.width, height, options.font);
}

void write_svg(std::ostream& out, std::span<const SvgRun> runs, const SvgOptions& options) {
  SvgCanvas canvas;
  const double height = draw_runs(canvas, runs, options);
  canvas.finish(out, options.width, height, options.font);
}

void write_pdf(std::ostream& out, const Program& program, const TimedTrace& trace,
               const SvgOptions& options) {
  PdfCanvas canvas;
  const double height = draw_run(canvas, {options.title, program, trace}, options);
  canvas.finish(out, options.width, height);
}

void write_pdf(std::ostream& out, std::span<const SvgRun> runs, const SvgOptions& options) {
  PdfCanvas canvas;
  const double height = draw_runs(canvas, runs, options);
  canvas.finish(out, options.width, height);
}

}  // namespace ppsim::simulator
