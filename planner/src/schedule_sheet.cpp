#include "ppsim/planner/schedule_sheet.hpp"

#include <algorithm>
#include <array>
#include <iomanip>
#include <sstream>

#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/core/text/as_text.hpp"
#include "ppsim/planner/evaluate.hpp"
#include "ppsim/simulator/writers/timeline.hpp"

namespace ppsim::planner {
namespace {

/// Where to look for an example, the first legal one taken.
constexpr std::array<std::pair<int, int>, 6> kExamples = {{{4, 8}, {4, 4}, {4, 16}, {2, 4}, {2, 2}, {1, 1}}};

ScheduleParameters example_of(const ScheduleInfo& info) {
  ScheduleParameters parameters;
  for (const auto& [ranks, microbatches] : kExamples) {
    parameters = {.ranks = ranks, .microbatches = microbatches, .slices = info.has_slices ? 2 : 1};
    if (check_parameters(info, parameters)) break;
  }
  return parameters;
}

/// A byte for the parameters of each block, nothing else.
SizeTable parameter_sizes() {
  SizeTable sizes;
  sizes.set({.kind = TensorKind::parameters}, 1);
  return sizes;
}

/// Activations that one microbatch leaves on a rank: of the stages that its route has there.
double activations_of_one(const Pipeline& pipeline, RankId rank) {
  const auto stages = pipeline.stages_of(rank);
  const auto visited = std::count_if(
      stages.begin(), stages.end(), [&](StageId stage) { return pipeline.on_route(stage, MicrobatchId(0)); });
  return static_cast<double>(visited) * pipeline.slices();
}

double max_activations(const SimulatedStep& step) {
  const Pipeline& pipeline = step.program().pipeline();
  double most = 0;
  for (const RankId rank : pipeline.rank_ids()) {
    most =
        std::max(most, step.metrics.ranks[rank].peak_live_activations / activations_of_one(pipeline, rank));
  }
  return most;
}

std::string picture_of(const SimulatedStep& step) {
  std::ostringstream out;
  write_svg(out, step.program(), step.trace, {.width = 640, .row_height = 24, .rows_only = true});
  return out.str();
}

std::string percent(double fraction) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(1) << 100 * std::max(0.0, fraction) << " %";
  return out.str();
}

std::string number(double value) {
  std::ostringstream out;
  out << std::setprecision(4) << value;
  return out.str();
}

/// For a cell of a table, where a bar would end the cell.
std::string formula(std::string_view text) {
  if (text.empty()) return "-";
  std::string cell = "`";
  for (const char c : text) cell += c == '|' ? std::string("\\|") : std::string(1, c);
  return cell + "`";
}

std::string sentence(std::string_view text) {
  std::string result = std::string(text) + ".";
  if (!text.empty() && text.front() >= 'a' && text.front() <= 'z') result.front() -= 'a' - 'A';
  return result;
}

void write_table(std::ostream& out, const std::vector<ScheduleSheet>& sheets) {
  out << "| schedule | bubble | peak activations | bubble at 4 x 8 | of span | peak | parameters |\n"
         "|---|---|---|---:|---:|---:|---:|\n";
  for (const ScheduleSheet& sheet : sheets) {
    const std::string name(sheet.info->name);
    out << "| [`" << name << "`](#" << name << ") | " << formula(sheet.info->forms.bubble) << " | "
        << formula(sheet.info->forms.peak) << " | " << percent(sheet.bubble_fraction) << " | "
        << percent(sheet.bubble_fraction_span) << " | " << number(sheet.peak_activations) << " | "
        << number(sheet.parameter_copies) << " |\n";
  }
}

void write_section(std::ostream& out, const ScheduleSheet& sheet) {
  const ScheduleInfo& info = *sheet.info;
  out << "\n## " << info.name << "\n\n![" << info.name << " with " << as_text(sheet.example) << "](schedules/"
      << info.name << ".svg)\n\n"
      << sentence(info.summary) << "\n\n- Paper: " << info.paper << "\n- Placement: " << info.placement
      << "\n- Constraints: " << info.constraints << '\n';
  if (!info.forms.bubble.empty()) out << "- Bubble: `" << info.forms.bubble << "`\n";
  if (!info.forms.peak.empty()) out << "- Peak activations: `" << info.forms.peak << "`\n";
  out << "- Example, " << as_text(sheet.example) << ": bubble " << percent(sheet.bubble_fraction)
      << " of the makespan, " << percent(sheet.bubble_fraction_span) << " of the longest rank's span; peak "
      << number(sheet.peak_activations) << ", parameters " << number(sheet.parameter_copies) << '\n';
  for (const SettingInfo& setting : info.settings) {
    out << "- `--set " << setting.name << "=...`: " << setting.meaning << "; default: " << setting.fallback
        << '\n';
  }
}

}  // namespace

Expected<ScheduleSheet> schedule_sheet(const ScheduleInfo& info) {
  ScheduleSheet sheet{.info = &info, .example = example_of(info)};
  PPSIM_ASSIGN_OR_RETURN(const auto schedule, generate(info.name, sheet.example));
  const CostTable costs = unit_cost_table({});
  PPSIM_ASSIGN_OR_RETURN(auto program, lower(schedule, {.order = IssueOrder::timed}, &costs));
  PPSIM_ASSIGN_OR_RETURN(const auto step,
                         evaluate(std::string(info.name), std::move(program),
                                  {.tables = {costs, parameter_sizes()}, .has_sizes = true}));
  const Pipeline& pipeline = step.program().pipeline();
  sheet.bubble_fraction = bubble_fraction(step.metrics.times);
  sheet.bubble_fraction_span = bubble_fraction_span(step.metrics.times);
  sheet.peak_activations = max_activations(step);
  sheet.parameter_copies = static_cast<double>(step.peak_bytes()) * pipeline.ranks() / pipeline.blocks();
  sheet.picture = picture_of(step);
  return sheet;
}

std::string schedule_page(const std::vector<ScheduleSheet>& sheets) {
  std::ostringstream out;
  out << "# Schedules\n\n"
         "Written by `ppsim list schedules --docs docs`; a test keeps it true.\n\n"
         "Formulas: p ranks, r a rank, m microbatches, v chunks, k slices; F, B, I, W, FB the times of one "
         "stage's actions, c that of one transfer. Bubble is the time that a rank does not compute. "
         "Formulas are for the default settings, and for c = 0 where they do not name it; where else they "
         "hold, and "
         "where the paper says otherwise, stands in the schedule's source and tests.\n\n"
         "Examples: 4 ranks and 8 microbatches where the schedule allows it, F=I=W=1, B=2, FB=3, c=0. "
         "Activations: 1 is all that one microbatch leaves on a rank between its forward and backward. "
         "Parameters: 1 is a p-th of the model, on the rank that holds most.\n\n"
         "Pictures: a row is a rank, from rank 0 on top, and time goes to the right; blue is F, orange B, "
         "red "
         "I, green W, grey the others, white idle; the number is the microbatch, behind a dot the slice; a "
         "lighter shade is a later chunk of the rank; a black border is a later route, where there are "
         "several "
         "(the other direction of Chimera); pale and without a number is padding (what SPMD computes in its "
         "bubbles); two actions above each other are an overlapped pair.\n\n";
  write_table(out, sheets);
  for (const ScheduleSheet& sheet : sheets) write_section(out, sheet);
  return out.str();
}

}  // namespace ppsim::planner
