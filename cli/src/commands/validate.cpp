#include "ppsim/planner/validate.hpp"

#include <cmath>
#include <cstdio>
#include <iostream>

#include "command.hpp"
#include "ppsim/planner/files.hpp"

namespace ppsim::cli {
namespace {

struct Options {
  std::vector<std::string> files;
  bool groups_only = false;
};

std::string decimals(double value, const char* format = "%.2f") {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

Json statistics_json(const ErrorStatistics& errors) {
  return {{"n", errors.n},
          {"mean_percent", errors.mean_percent},
          {"bias_percent", errors.bias_percent},
          {"median_percent", errors.median_percent},
          {"p95_percent", errors.p95_percent},
          {"max_percent", errors.max_percent},
          {"within_5_percent", errors.within_5_percent},
          {"within_10_percent", errors.within_10_percent}};
}

/// A comparison with the row that it is of. `unit` ends the keys of its figures.
Json comparison_json(const Comparison& one, const MeasuredRow& row, const std::string& unit) {
  Json object = {{"source", row.source}, {"label", row.label}, {"file", row.file}, {"row", row.line}};
  if (one.rank) object["rank"] = *one.rank;
  if (const auto* run = std::get_if<RunDescription>(&row.run)) object["stack"] = run->stack;
  object["simulated_" + unit] = one.simulated ? Json(*one.simulated) : Json();
  object["measured_" + unit] = one.measured > 0 ? Json(one.measured) : Json();
  if (one.simulated && one.measured > 0) object["error_percent"] = one.error_percent();
  if (!one.reason.empty()) object["reason"] = one.reason;
  return object;
}

Json agreement_json(const Agreement& agreement, const std::vector<MeasuredRow>& rows,
                    const std::string& unit) {
  Json object = {{"rows", Json::array()}, {"groups", Json::array()}, {"all", statistics_json(agreement.all)}};
  for (const Comparison& one : agreement.comparisons)
    object["rows"].push_back(comparison_json(one, rows[one.row], unit));
  for (const ErrorGroup& group : agreement.groups) {
    Json item = {{"name", group.name}};
    item.update(statistics_json(group.errors));
    object["groups"].push_back(std::move(item));
  }
  return object;
}

Json constants_json(const std::vector<Constant>& constants, bool fitted) {
  Json items = Json::array();
  for (const Constant& one : constants) {
    if (one.fitted != fitted) continue;
    items.push_back({{"name", one.name}, {"value", one.value}, {"unit", one.unit}, {"source", one.source}});
  }
  return items;
}

Json validation_json(const Validation& validation) {
  Json object = agreement_json(validation.steps, validation.rows, "s");
  object["memory"] = agreement_json(validation.memory, validation.rows, "bytes");
  object["fitted_constants"] = constants_json(validation.constants, true);
  object["sourced_constants"] = constants_json(validation.constants, false);
  return object;
}

std::string rank_text(const Comparison& one) {
  return one.rank ? ", rank " + std::to_string(*one.rank) : std::string();
}

/// Rows that were simulated as a table, the others below it with the reason. Figures are divided by `scale`.
void print_rows(const Agreement& agreement, const std::vector<MeasuredRow>& rows, double scale) {
  std::vector<std::vector<std::string>> table = {{"source", "simulated", "measured", "error %", "row"}};
  std::string left_out;
  for (const Comparison& one : agreement.comparisons) {
    const MeasuredRow& row = rows[one.row];
    const std::string label = row.label + rank_text(one);
    if (one.simulated) {
      table.push_back({row.source, decimals(*one.simulated / scale, "%.3f"),
                       decimals(one.measured / scale, "%.3f"), decimals(one.error_percent(), "%+.2f"),
                       label});
    } else {
      left_out += "  " + row.source + ", " + label + ": " + one.reason + '\n';
    }
  }
  if (table.size() > 1) std::cout << table_text(table);
  if (!left_out.empty()) std::cout << "Not simulated:\n" << left_out;
}

std::vector<std::string> statistics_cells(const std::string& name, const ErrorStatistics& errors) {
  return {name,
          std::to_string(errors.n),
          decimals(errors.mean_percent),
          decimals(errors.bias_percent, "%+.2f"),
          decimals(errors.median_percent),
          decimals(errors.p95_percent),
          decimals(errors.max_percent),
          percent_text(errors.within_5_percent),
          percent_text(errors.within_10_percent)};
}

void print_groups(const Agreement& agreement) {
  std::vector<std::vector<std::string>> table = {
      {"absolute errors in %", "n", "mean", "bias", "median", "p95", "max", "within 5 %", "within 10 %"}};
  for (const ErrorGroup& group : agreement.groups)
    table.push_back(statistics_cells(group.name, group.errors));
  table.push_back(statistics_cells("all", agreement.all));
  std::cout << table_text(table);
}

void print_constants(const std::vector<Constant>& constants, bool fitted) {
  for (const Constant& one : constants) {
    if (one.fitted != fitted) continue;
    std::cout << "  " << one.name << " = " << decimals(one.value, "%.6g") << ' ' << one.unit << ": "
              << one.source << '\n';
  }
}

void print_text(const Validation& validation, bool groups_only) {
  if (!groups_only) {
    std::cout << "Step, seconds\n";
    print_rows(validation.steps, validation.rows, 1);
    std::cout << '\n';
  }
  print_groups(validation.steps);
  if (!validation.memory.comparisons.empty()) {
    std::cout << "\nAllocated memory, GiB\n";
    if (!groups_only) print_rows(validation.memory, validation.rows, 1073741824.0);
    print_groups(validation.memory);
  }
  std::cout << "\nConstants fitted to measured steps:\n";
  print_constants(validation.constants, true);
  std::cout << "Constants with a source:\n";
  print_constants(validation.constants, false);
}

/// Where to look next: the simulated step that is furthest off.
void print_advice(const Validation& validation) {
  const Comparison* worst = nullptr;
  for (const Comparison& one : validation.steps.comparisons) {
    if (!one.simulated) continue;
    if (worst == nullptr || std::abs(one.error_percent()) > std::abs(worst->error_percent())) worst = &one;
  }
  if (worst == nullptr) {
    std::cout << "No step could be simulated: the list of the rows says why.\n";
    return;
  }
  const MeasuredRow& row = validation.rows[worst->row];
  std::cout << "Furthest off is the step of " << row.file << ':' << row.line << ", "
            << decimals(worst->error_percent(), "%+.2f") << " %: look there first.\n";
}

int run(const Options& options, const Output& output) {
  std::vector<MeasuredRow> rows;
  for (const std::string& file : options.files) {
    const auto text = read_text_file(file);
    if (!text) return report(text.error(), output);
    auto read = read_measurements(*text, file);
    if (!read) return report(read.error(), output);
    rows.insert(rows.end(), std::make_move_iterator(read->begin()), std::make_move_iterator(read->end()));
  }
  const Validation validation = validate(std::move(rows));
  if (output.json) {
    output.print(validation_json(validation));
  } else {
    print_text(validation, options.groups_only);
    print_advice(validation);
  }
  return kDone;
}

}  // namespace

void add_validate(Command& program) {
  auto options = std::make_shared<Options>();
  Command command =
      program.add_subcommand("validate", "simulated against measured steps: errors by row and by group");
  command
      .add_option("FILES", options->files,
                  "CSV of measured steps or memory, told apart by its columns; a column `stack` names the "
                  "software")
      .required();
  command.add_flag("--groups", options->groups_only, "no table of the rows");
  command.runs([options](const Output& output) { return run(*options, output); });
}

}  // namespace ppsim::cli
