#include <cstdio>
#include <ostream>
#include <sstream>

#include "ppsim/planner/validation_page.hpp"

namespace ppsim::planner {
namespace {

std::string printed(double value, const char* format) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

/// For a cell of a table, where a bar would end the cell and a `<` may begin a tag.
std::string cell(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '|') result += '\\';
    if (c == '<') result += "&lt;";
    if (c != '<') result += c;
  }
  return result;
}

std::string label_of(const Comparison& one, const MeasuredRow& row) {
  return row.label + (one.rank ? ", rank " + std::to_string(*one.rank) : std::string());
}

void write_errors(std::ostream& out, const std::string& name, const ErrorStatistics& errors) {
  const auto figure = [](double value) { return " | " + printed(value, "%.2f"); };
  out << "| " << cell(name) << " | " << errors.n << figure(errors.mean_percent) << " | "
      << printed(errors.bias_percent, "%+.2f") << figure(errors.median_percent) << figure(errors.p95_percent)
      << figure(errors.max_percent) << " | " << printed(100 * errors.within_5_percent, "%.0f %%") << " | "
      << printed(100 * errors.within_10_percent, "%.0f %%") << " |\n";
}

void write_groups(std::ostream& out, const Agreement& agreement) {
  out << "| absolute errors in % | n | mean | bias | median | p95 | max | within 5 % | within 10 % |\n"
         "|---|---:|---:|---:|---:|---:|---:|---:|---:|\n";
  for (const ErrorGroup& group : agreement.groups) write_errors(out, group.name, group.errors);
  write_errors(out, "all", agreement.all);
}

/// How figures of a quantity are printed.
struct Quantity {
  const char* name;
  const char* unit_name;
  double unit;
  const char* format;
};

void write_rows(std::ostream& out, const Validation& validation, const Agreement& agreement,
                const Quantity& quantity) {
  out << "| source | run | simulated, " << quantity.unit_name << " | measured, " << quantity.unit_name
      << " | error, % |\n|---|---|---:|---:|---:|\n";
  for (const Comparison& one : agreement.comparisons) {
    if (!one.simulated) continue;
    const MeasuredRow& row = validation.rows[one.row];
    out << "| " << cell(row.source) << " | " << cell(label_of(one, row)) << " | "
        << printed(*one.simulated / quantity.unit, quantity.format) << " | "
        << printed(one.measured / quantity.unit, quantity.format) << " | "
        << printed(one.error_percent(), "%+.2f") << " |\n";
  }
}

/// The rows without a simulation; nothing where there is none.
void write_left_out(std::ostream& out, const Validation& validation, const Agreement& agreement) {
  std::string rows;
  for (const Comparison& one : agreement.comparisons) {
    if (one.simulated) continue;
    const MeasuredRow& row = validation.rows[one.row];
    rows += "| " + cell(row.source) + " | " + cell(label_of(one, row)) + " | " + cell(one.reason) + " |\n";
  }
  if (!rows.empty()) out << "\nNot simulated:\n\n| source | run | reason |\n|---|---|---|\n" << rows;
}

void write_agreement(std::ostream& out, const Validation& validation, const Agreement& agreement,
                     const Quantity& quantity) {
  out << "\n## Rows: " << quantity.name << "\n\n";
  write_rows(out, validation, agreement, quantity);
  write_left_out(out, validation, agreement);
}

void write_constants(std::ostream& out, const std::vector<Constant>& constants, bool fitted) {
  out << "| constant | value | unit | " << (fitted ? "fitted to" : "source") << " |\n|---|---:|---|---|\n";
  for (const Constant& one : constants) {
    if (one.fitted != fitted) continue;
    out << "| `" << one.name << "` | " << printed(one.value, "%.6g") << " | " << cell(one.unit) << " | "
        << cell(one.source) << " |\n";
  }
}

/// The values of the fitted constants.
std::string constants_cells(const FittedConstants& constants) {
  return " | " + printed(constants.exposed_share, "%.6g") + " | " +
         printed(constants.network_efficiency, "%.6g") + " | " + printed(constants.product_slowdown, "%.6g") +
         " | " + printed(constants.kernel_time, "%.6g");
}

void write_refit(std::ostream& out, const Refit& refit) {
  out << "\n## Without each source\n\nThe constants fitted again to the rows of dense models on A100 and "
         "H100, without those of one source, "
         "and the errors of the dense runs of that source with them.\n\n"
         "| source left out | fitted to | exposed share | network efficiency | product slowdown | kernel "
         "time, s "
         "| runs | mean, % | median, % | max, % |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n";
  for (const SourceLeftOut& one : refit.sources) {
    out << "| " << cell(one.source) << " | " << one.fitted_to << constants_cells(one.constants) << " | "
        << one.errors.n << " | " << printed(one.errors.mean_percent, "%.2f") << " | "
        << printed(one.errors.median_percent, "%.2f") << " | " << printed(one.errors.max_percent, "%.2f")
        << " |\n";
  }
  out << "| none | " << refit.fitted_to << constants_cells(refit.constants) << " | | | | |\n";
  out << "| as they are | " << constants_cells({}) << " | | | | |\n";
}

}  // namespace

std::string validation_page(const Validation& validation, bool with_rows) {
  std::ostringstream out;
  const bool has_memory = !validation.memory.comparisons.empty();
  out << "## Errors of the step, by group\n\nGroups overlap: a row counts in those of its kind, in that of "
         "its "
         "source, and in that of its model, GPU and precision.\n\n";
  write_groups(out, validation.steps);
  if (has_memory) {
    out << "\n## Errors of allocated memory, by group\n\n";
    write_groups(out, validation.memory);
  }
  out << "\n## Constants fitted to measured steps\n\n";
  write_constants(out, validation.constants, true);
  out << "\n## Constants with a source\n\n";
  write_constants(out, validation.constants, false);
  if (validation.refit) write_refit(out, *validation.refit);
  if (!with_rows) return out.str();
  write_agreement(out, validation, validation.steps, {"steps", "s", 1, "%.3f"});
  if (has_memory)
    write_agreement(out, validation, validation.memory, {"allocated memory", "GiB", 1073741824.0, "%.2f"});
  return out.str();
}

}  // namespace ppsim::planner
