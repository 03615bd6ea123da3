#pragma once

#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ppsim/simulator/metrics/metrics.hpp"
#include "ppsim/simulator/writers/palette.hpp"

namespace ppsim::simulator {

/// A line of a report's header, e.g. an assumption, a hash or a verdict.
struct ReportFact {
  enum class Tone : std::uint8_t { plain, good, bad };
  std::string label;
  std::string value;
  Tone tone = Tone::plain;
  bool folded = false;  ///< shown when asked for, as hashes are
  friend bool operator==(const ReportFact&, const ReportFact&) = default;
};

/// One run of a report. Only refers to the run and its metrics.
struct ReportEntry {
  std::string name;
  TimedRun run;
  const RunMetrics& metrics;
  std::optional<Bytes> memory_limit = {};  ///< of one rank
  std::vector<ReportFact> facts = {};
  std::string work = {};  ///< beside that of the first run; empty where all do the same
  bool same_work = true;  ///< as the first run; if not, no figure of it is the best
  bool sizes_known = true;
  std::optional<Nanoseconds> step = {};  ///< with what follows the pipeline; nothing: the pipeline alone
};

struct ReportOptions {
  std::string title;
  std::string hint = "Times are simulated.";  ///< where the times come from
  Palette palette = Palette::colour_blind;
  bool overlay = false;      ///< the timeline begins with the second run below the first
  std::string command = {};  ///< that wrote it; empty: not shown
};

/// Writes one HTML file that needs nothing else and no network: figures, a timeline to zoom, pan, search and
/// measure, with transfers and the critical path, memory over time by rank and by kind of tensor, the bubble
/// by rank, and a table when there are several runs, which stand below each other. A pixel has the colours of
/// what it covers, weighted by time. Requires: at least one entry.
void write_report(std::ostream& out, std::span<const ReportEntry> entries, const ReportOptions& options);

}  // namespace ppsim::simulator

namespace ppsim {
using simulator::ReportEntry;
using simulator::ReportFact;
using simulator::ReportOptions;
using simulator::write_report;
}  // namespace ppsim
