#pragma once

#include <iosfwd>
#include <span>
#include <string>
#include <string_view>

#include "ppsim/core/execution/timed_trace.hpp"
#include "ppsim/simulator/writers/palette.hpp"

namespace ppsim::simulator {

/// Of an SVG or PDF picture.
struct SvgOptions {
  std::string title;
  Palette palette = Palette::colour_blind;
  int width = 1200;        ///< pixels of the whole picture, 96 to the inch
  int row_height = 26;     ///< pixels of one rank
  bool rows_only = false;  ///< a small picture: no axis, legend, names of ranks or hover texts
  std::string font = "Helvetica, Arial, sans-serif";  ///< of SVG; a PDF has Helvetica
  bool unit_axis = false;                             ///< times in units of a millisecond, without "ms"
  std::span<const MemoryProfile> memory = {};         ///< of each rank, in a panel below; none: no panel
};

/// A run in a figure of several.
struct SvgRun {
  std::string title;
  const Program& program;
  const TimedTrace& trace;
};

/// Draws the compute queues of a run: a row per rank, rank 0 on top; the microbatch in the cell where it
/// fits, later chunks lighter, a dark border on the second and later routes, padding pale and without a
/// number, idle time white, a time axis and a legend. An overlapped pair is F above B. Where cells are
/// narrower than two pixels, each pixel has the colours of what it covers, weighted by time.
void write_svg(std::ostream& out, const Program& program, const TimedTrace& trace,
               const SvgOptions& options = {});

/// Draws runs under each other over one time axis, each with its title, under that of the options.
void write_svg(std::ostream& out, std::span<const SvgRun> runs, const SvgOptions& options = {});

/// The same pictures as a page of PDF, without hover texts.
/// Requires: texts for which `pdf_has_letters`; other letters become '?'.
void write_pdf(std::ostream& out, const Program& program, const TimedTrace& trace,
               const SvgOptions& options = {});
void write_pdf(std::ostream& out, std::span<const SvgRun> runs, const SvgOptions& options = {});

/// A text as HTML and SVG write it.
[[nodiscard]] std::string markup_text(std::string_view text);

/// Whether the letters of a text are those of Latin 1, which a PDF's font has.
[[nodiscard]] bool pdf_has_letters(std::string_view text);

struct TextTimelineOptions {
  int width = 100;      ///< characters of a line; at least ten are left for the time
  bool colour = false;  ///< 24-bit ANSI colours instead of shades
  Palette palette = Palette::colour_blind;
  Nanoseconds from = 0;  ///< the part of the step that is drawn
  Nanoseconds to = 0;    ///< 0: to its end
  int first_rank = 0;
  int ranks = 0;  ///< how many from the first one on; 0: all
};

/// Draws the compute queues of a run with Unicode blocks: a line per rank, each character the action that
/// takes most of its time. An action of several characters begins with its kind and microbatch. Forwards are
/// light, backwards full, weight gradients medium. A legend of the kinds that are there follows.
void write_text_timeline(std::ostream& out, const Program& program, const TimedTrace& trace,
                         const TextTimelineOptions& options = {});

}  // namespace ppsim::simulator

namespace ppsim {
using simulator::markup_text;
using simulator::pdf_has_letters;
using simulator::SvgOptions;
using simulator::SvgRun;
using simulator::TextTimelineOptions;
using simulator::write_pdf;
using simulator::write_svg;
using simulator::write_text_timeline;
}  // namespace ppsim
