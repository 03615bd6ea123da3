#include "ppsim/planner/validate.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <sstream>

#include "command.hpp"
#include "command_line/validators.hpp"
#include "ppsim/planner/files.hpp"
#include "ppsim/planner/validation_page.hpp"

namespace ppsim::cli {
namespace {

struct ValidateOptions {
  std::vector<std::string> files;
  std::vector<std::string> written;  ///< page and picture
  bool groups_only = false;
  bool refit = false;
  std::string effects;
};

/// Steps that come at least 0.1 % of the measured one nearer to it, or further from it.
struct Nearer {
  int nearer = 0;
  int further = 0;
};

constexpr double kNoteworthyPercent = 0.1;

/// Requires: comparisons of the same rows.
Nearer nearer(const Agreement& without, const Agreement& with) {
  Nearer found;
  for (std::size_t i = 0; i < with.comparisons.size(); ++i) {
    const Comparison& before = without.comparisons[i];
    const Comparison& after = with.comparisons[i];
    if (!before.simulated || !after.simulated) continue;
    const double gain = std::abs(before.error_percent()) - std::abs(after.error_percent());
    found.nearer += gain >= kNoteworthyPercent ? 1 : 0;
    found.further += gain <= -kNoteworthyPercent ? 1 : 0;
  }
  return found;
}

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

Json fitted_json(const FittedConstants& constants) {
  return {{"exposed_share", constants.exposed_share},
          {"network_efficiency", constants.network_efficiency},
          {"product_slowdown", constants.product_slowdown},
          {"kernel_time", constants.kernel_time}};
}

Json refit_json(const Refit& refit) {
  Json object = {{"fitted_to", refit.fitted_to},
                 {"constants", fitted_json(refit.constants)},
                 {"sources", Json::array()},
                 {"dense", statistics_json(refit.dense)}};
  for (const SourceLeftOut& one : refit.sources) {
    Json item = {
        {"source", one.source}, {"fitted_to", one.fitted_to}, {"constants", fitted_json(one.constants)}};
    item.update(statistics_json(one.errors));
    object["sources"].push_back(std::move(item));
  }
  return object;
}

/// The rows with the effects, each with what it is without, and how many are nearer and further off so.
Json effects_json(const Validation& without, const Validation& with) {
  Json object = {{"links", with.effects.links},
                 {"transfers", with.effects.transfers},
                 {"collectives", with.effects.collectives}};
  const Nearer found = nearer(without.steps, with.steps);
  object["nearer"] = found.nearer;
  object["further"] = found.further;
  object.update(agreement_json(with.steps, with.rows, "s"));
  if (with.refit) object["refit"] = refit_json(*with.refit);
  return object;
}

Json validation_json(const Validation& validation) {
  Json object = agreement_json(validation.steps, validation.rows, "s");
  object["memory"] = agreement_json(validation.memory, validation.rows, "bytes");
  object["fitted_constants"] = constants_json(validation.constants, true);
  object["sourced_constants"] = constants_json(validation.constants, false);
  if (validation.refit) object["refit"] = refit_json(*validation.refit);
  return object;
}

/// The key of a row.
std::string row_name(const Comparison& one, const MeasuredRow& row) {
  return row.source + ", " + row.label + (one.rank ? ", rank " + std::to_string(*one.rank) : std::string());
}

/// The rows that were not simulated, below the reason that they share.
void print_left_out(const Agreement& agreement, const std::vector<MeasuredRow>& rows) {
  std::vector<std::pair<std::string, std::string>> reasons;  // in the order of the rows
  for (const Comparison& one : agreement.comparisons) {
    if (one.simulated) continue;
    const auto known = std::ranges::find(reasons, one.reason, &std::pair<std::string, std::string>::first);
    auto& names = known != reasons.end() ? known->second : reasons.emplace_back(one.reason, "").second;
    names += "    " + row_name(one, rows[one.row]) + '\n';
  }
  if (!reasons.empty()) std::cout << "Not simulated:\n";
  for (const auto& [reason, names] : reasons) std::cout << "  " << reason << '\n' << names;
}

/// Figures first, so that they stay in sight however long a name is. They are divided by `scale`.
void print_rows(const Agreement& agreement, const std::vector<MeasuredRow>& rows, double scale) {
  std::cout << " simulated   measured  error %  run\n";
  for (const Comparison& one : agreement.comparisons) {
    if (!one.simulated) continue;
    std::cout << decimals(*one.simulated / scale, "%10.3f") << ' ' << decimals(one.measured / scale, "%10.3f")
              << ' ' << decimals(one.error_percent(), "%+8.2f") << "  " << row_name(one, rows[one.row])
              << '\n';
  }
  print_left_out(agreement, rows);
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

void print_groups(const Agreement& agreement, const char* quantity) {
  std::cout << "\nErrors of " << quantity << " in %, absolute but for the bias\n";
  TextTable table = {{"rows", "n", "mean", "bias", "median", "p95", "max", "within 5 %", "within 10 %"}};
  for (const ErrorGroup& group : agreement.groups)
    table.push_back(statistics_cells(group.name, group.errors));
  table.push_back(statistics_cells("all", agreement.all));
  std::cout << table_text(table);
}

const ErrorStatistics* of_group(const Agreement& agreement, const std::string& name) {
  const auto found = std::ranges::find(agreement.groups, name, &ErrorGroup::name);
  return found == agreement.groups.end() ? nullptr : &found->errors;
}

/// By group, the errors without and with the effects.
void print_effects(const Agreement& without, const Agreement& with) {
  std::cout << "\nErrors of the step in %, absolute but for the bias, without -> with the effects\n";
  TextTable table = {{"rows", "n", "mean", "bias", "median", "max"}};
  const auto add = [&](const std::string& name, const ErrorStatistics& before, const ErrorStatistics& after) {
    const auto both = [&](double ErrorStatistics::*figure, const char* format = "%.2f") {
      return decimals(before.*figure, format) + " -> " + decimals(after.*figure, format);
    };
    table.push_back({name, std::to_string(after.n), both(&ErrorStatistics::mean_percent),
                     both(&ErrorStatistics::bias_percent, "%+.2f"), both(&ErrorStatistics::median_percent),
                     both(&ErrorStatistics::max_percent)});
  };
  for (const ErrorGroup& group : with.groups) {
    if (const auto* before = of_group(without, group.name)) add(group.name, *before, group.errors);
  }
  add("all", without.all, with.all);
  const Nearer found = nearer(without, with);
  std::cout << table_text(table) << "With the effects " << found.nearer << " rows are at least "
            << decimals(kNoteworthyPercent, "%.1f") << " points nearer to what was measured, and "
            << found.further << " further from it.\n";
}

void print_constants(const std::vector<Constant>& constants, bool fitted) {
  for (const Constant& one : constants) {
    if (one.fitted != fitted) continue;
    std::cout << "  " << one.name << " = " << decimals(one.value, "%.6g") << ' ' << one.unit << ": "
              << one.source << '\n';
  }
}

/// Of the constants as they are, as all rows would have them, and as those of all sources but one would.
void print_refit(const Refit& refit) {
  TextTable table = {{"source left out", "fitted to", "exposed", "network", "products", "kernel, us", "runs",
                      "mean", "median", "max"}};
  const auto add = [&](const std::string& name, const std::string& rows, const FittedConstants& constants) {
    table.push_back({name, rows, decimals(constants.exposed_share), decimals(constants.network_efficiency),
                     decimals(constants.product_slowdown), decimals(constants.kernel_time * 1e6, "%.0f")});
  };
  for (const SourceLeftOut& one : refit.sources) {
    add(one.source, std::to_string(one.fitted_to), one.constants);
    for (const std::string& figure : {std::to_string(one.errors.n), decimals(one.errors.mean_percent),
                                      decimals(one.errors.median_percent), decimals(one.errors.max_percent)})
      table.back().push_back(figure);
  }
  add("none", std::to_string(refit.fitted_to), refit.constants);
  add("(constants as they are)", "", FittedConstants());
  for (auto row = table.end() - 2; row != table.end(); ++row) row->resize(table.front().size());
  std::cout << "\nConstants fitted again without each source, and errors in % of its dense runs then\n"
            << table_text(table);
}

/// The errors by group come last, next to the prompt: most readers look for them.
void print_text(const Validation& validation, bool groups_only) {
  const bool has_memory = !validation.memory.comparisons.empty();
  if (!groups_only) {
    std::cout << "Time of a step, s\n";
    print_rows(validation.steps, validation.rows, 1);
    if (has_memory) {
      std::cout << "\nAllocated memory, GiB\n";
      print_rows(validation.memory, validation.rows, 1073741824.0);
    }
    std::cout << '\n';
  }
  std::cout << "Constants fitted to measured steps:\n";
  print_constants(validation.constants, true);
  std::cout << "Constants with a source:\n";
  print_constants(validation.constants, false);
  if (validation.refit) print_refit(*validation.refit);
  print_groups(validation.steps, "the step");
  if (has_memory) print_groups(validation.memory, "allocated memory");
  std::cout << "Groups overlap: a row counts in those of its kind, in that of its source, and in that of its "
               "model, GPU and precision.\n";
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

/// The page where the file ends in .md, else the picture.
Expected<void> write_result(const Validation& validation, const std::string& file,
                            const ValidateOptions& options) {
  const bool is_page = suffix_of(file) == ".md";
  return write_text_file(
      file, is_page ? validation_page(validation, !options.groups_only) : validation_picture(validation));
}

/// Reads --effects. Errors: bad_argument for an unknown word.
Expected<RunEffects> effects_of(const std::string& text) {
  RunEffects effects;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    if (word == "links") {
      effects.links = true;
    } else if (word == "transfers") {
      effects.transfers = true;
    } else if (word == "collectives") {
      effects.collectives = true;
    } else {
      return make_error(ErrorCode::bad_argument, "unknown effect in --effects",
                        {.found = word, .expected = "links, transfers, collectives, with commas between"});
    }
  }
  return effects;
}

Expected<int> run(const ValidateOptions& options, const Output& output) {
  PPSIM_ASSIGN_OR_RETURN(const auto effects, effects_of(options.effects));
  std::vector<MeasuredRow> rows;
  for (const std::string& file : options.files) {
    PPSIM_ASSIGN_OR_RETURN(const auto text, read_text_file(file));
    PPSIM_ASSIGN_OR_RETURN(auto read, read_measurements(text, file));
    rows.insert(rows.end(), std::make_move_iterator(read.begin()), std::make_move_iterator(read.end()));
  }
  std::optional<Validation> with;
  if (effects.any()) with = validate(rows, effects);
  Validation validation = validate(std::move(rows));
  if (options.refit) add_refit(validation);
  if (options.refit && with) add_refit(*with);
  for (const std::string& file : options.written) {
    PPSIM_RETURN_IF_ERROR(write_result(validation, file, options));
  }
  if (output.json) {
    Json object = validation_json(validation);
    if (with) object["effects"] = effects_json(validation, *with);
    output.print(object);
  } else {
    print_text(validation, options.groups_only);
    if (with) print_effects(validation.steps, with->steps);
    print_advice(validation);
  }
  return kDone;
}

}  // namespace

void add_validate(Command& program) {
  auto options = std::make_shared<ValidateOptions>();
  Command command =
      program.add_subcommand("validate", "simulated against measured steps: errors by row and by group");
  command
      .add_option("FILES", options->files,
                  "CSV of measured steps or memory, told apart by its columns; a column `stack` names the "
                  "software")
      .required();
  command
      .add_option("-o,--output", options->written,
                  "write a picture, simulated over measured, to FILE.svg, or all tables to FILE.md; "
                  "may be given again")
      .one_value_each()
      .check(side_file({".svg", ".md"}));
  command.add_flag("--groups", options->groups_only, "no table of the rows");
  command.add_flag(
      "--refit", options->refit,
      "fit the constants again, without each source, and give the errors of its dense runs then");
  command.add_option("--effects", options->effects,
                     "simulate the runs once more and compare, with any of links,transfers,collectives: what "
                     "GPUs send shares NVLink and NICs; transfers, and collectives beside products, hold "
                     "multiprocessors");
  command.runs(run, options);
}

}  // namespace ppsim::cli
