#include "ppsim/planner/report_file.hpp"

#include <sstream>

#include "ppsim/core/ir/hash.hpp"
#include "ppsim/core/ir/sequences.hpp"
#include "ppsim/core/text/as_text.hpp"
#include "ppsim/planner/files.hpp"
#include "ppsim/simulator/writers/report.hpp"

namespace ppsim::planner {
namespace {

/// For whoever asks: which Program, costs and sizes these are.
std::vector<ReportFact> hashes_of(const TimedRun& run) {
  constexpr auto kPlain = ReportFact::Tone::plain;
  return {{"program", program_hash(run.program), kPlain, true},
          {"costs", costs_hash(run.costs), kPlain, true},
          {"sizes", sizes_hash(run.sizes), kPlain, true}};
}

ReportEntry entry_of(const SimulatedStep& step) {
  ReportEntry entry{step.name, step.timed_run(), step.metrics, step.costs.memory_limit, {}};
  entry.sizes_known = step.costs.has_sizes;
  entry.step = step.step();
  entry.facts = {{"pipeline", as_text(step.program().pipeline())},
                 {"transport", as_text(step.capabilities())}};
  if (step.costs.notes) entry.facts.push_back({"model", step.costs.notes->workload});
  if (step.costs.layout) entry.facts.push_back({"layout", as_text(*step.costs.layout)});
  if (step.costs.recompute != StageRecompute())
    entry.facts.push_back({"recompute", as_text(step.costs.recompute)});
  if (step.costs.memory_limit) {
    entry.facts.push_back({"memory of this run", step.fits() ? "fits" : "does not fit",
                           step.fits() ? ReportFact::Tone::good : ReportFact::Tone::bad});
  }
  if (!step.costs.has_sizes) entry.facts.push_back({"memory", "unknown: no sizes are given"});
  const auto hashes = hashes_of(step.timed_run());
  append_all(entry.facts, hashes);
  return entry;
}

Expected<void> write_overlay(const std::string& path, const std::vector<ReportEntry>& entries,
                             const std::string& command) {
  std::ostringstream page;
  write_report(page, entries,
               {.title = "Measured over simulated",
                .hint = "The measured step above, the simulated one below.",
                .overlay = true,
                .command = command});
  return write_text_file(path, page.view());
}

ReportEntry measured_entry(const TimedRun& measured, const RunMetrics& metrics) {
  ReportEntry entry{"measured", measured, metrics};
  entry.facts = {{"pipeline", as_text(measured.program.pipeline())},
                 {"transport", as_text(measured.analyzed.capabilities())}};
  const auto hashes = hashes_of(measured);
  append_all(entry.facts, hashes);
  entry.sizes_known = !measured.sizes.entries().empty();
  return entry;
}

}  // namespace

Expected<void> write_run_report(const std::string& path, const TimedRun& measured,
                                const TimedTrace& simulated, const std::string& command) {
  const TimedRun prediction{measured.analyzed, simulated, measured.costs, measured.sizes};
  const RunMetrics measured_metrics = measure(measured);
  const RunMetrics simulated_metrics = measure(prediction);
  ReportEntry below = measured_entry(prediction, simulated_metrics);
  below.name = "simulated";
  return write_overlay(path, {measured_entry(measured, measured_metrics), below}, command);
}

Expected<void> write_run_report(const std::string& path, const TimedRun& measured,
                                const SimulatedStep& simulated, const std::string& command) {
  const RunMetrics measured_metrics = measure(measured);
  ReportEntry below = entry_of(simulated);
  below.name = "simulated";
  return write_overlay(path, {measured_entry(measured, measured_metrics), below}, command);
}

Expected<void> write_report_file(const std::string& path, std::span<const SimulatedStep> steps,
                                 std::span<const ReportWork> works, const std::string& command) {
  std::vector<ReportEntry> entries;
  for (const SimulatedStep& step : steps) entries.push_back(entry_of(step));
  for (std::size_t i = 0; i < works.size(); ++i) {
    entries[i].work = works[i].text;
    entries[i].same_work = works[i].same;
  }
  std::ostringstream page;
  write_report(page, entries,
               {.title = steps.size() == 1 ? steps.front().name : "Schedules compared", .command = command});
  return write_text_file(path, page.view());
}

}  // namespace ppsim::planner
