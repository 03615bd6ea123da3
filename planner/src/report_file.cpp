#include "ppsim/planner/report_file.hpp"

#include <sstream>

#include "ppsim/core/ir/hash.hpp"
#include "ppsim/planner/files.hpp"
#include "ppsim/simulator/writers/report.hpp"

namespace ppsim::planner {
namespace {

ReportEntry entry_of(const Evaluation& step) {
  std::ostringstream shape;
  shape << step.program().pipeline();
  std::ostringstream transport;
  transport << step.capabilities();
  ReportEntry entry{step.name, step.view(), step.metrics, step.costs.memory_limit, {}};
  entry.sizes_known = step.costs.has_sizes;
  entry.facts = {{"pipeline", shape.str()},
                 {"transport", transport.str()},
                 {"program", program_hash(step.program())},
                 {"costs", costs_hash(step.costs.tables.costs)},
                 {"sizes", sizes_hash(step.costs.tables.sizes)}};
  if (step.costs.memory_limit) {
    entry.facts.push_back({"memory of this run", step.fits() ? "fits" : "does not fit",
                           step.fits() ? ReportFact::Tone::good : ReportFact::Tone::bad});
  }
  return entry;
}

}  // namespace

Expected<void> write_run_report(const std::string& path, const RunView& measured,
                                const TimedTrace& simulated) {
  RunView prediction{measured.analyzed, simulated, measured.costs, measured.sizes};
  const RunMetrics measured_metrics = measure(measured);
  const RunMetrics simulated_metrics = measure(prediction);
  const std::vector<ReportFact> facts = {{"program", program_hash(measured.program)},
                                         {"costs", costs_hash(measured.costs)},
                                         {"sizes", sizes_hash(measured.sizes)}};
  const std::vector<ReportEntry> entries = {{"measured", measured, measured_metrics, {}, facts},
                                            {"simulated", prediction, simulated_metrics, {}, facts}};
  std::ostringstream page;
  write_report(page, entries,
               {.title = "Measured over simulated",
                .hint = "The measured step above, the simulated one below.",
                .overlay = true});
  return write_text_file(path, page.view());
}

Expected<void> write_report_file(const std::string& path, std::span<const Evaluation> steps,
                                 std::span<const ReportWork> works) {
  std::vector<ReportEntry> entries;
  for (const Evaluation& step : steps) entries.push_back(entry_of(step));
  for (std::size_t i = 0; i < works.size(); ++i) {
    entries[i].work = works[i].text;
    entries[i].same_work = works[i].same;
  }
  std::ostringstream page;
  write_report(page, entries, {.title = steps.size() == 1 ? steps.front().name : "Schedules compared"});
  return write_text_file(path, page.view());
}

}  // namespace ppsim::planner
