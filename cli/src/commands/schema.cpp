#include <iostream>

#include "command.hpp"
#include "output/schemas.hpp"
#include "ppsim/core/io/json.hpp"
#include "ppsim/core/text/nearest.hpp"

namespace ppsim::cli {
namespace {

constexpr std::string_view kFiles[] = {"schedule", "program", "tables",      "certificate",
                                       "cluster",  "stack",   "calibration", "algorithms"};

struct SchemaOptions {
  std::string name;
};

/// Of what commands print, then of files.
std::vector<std::string_view> names() {
  std::vector<std::string_view> all = names_in(output_schemas());
  all.insert(all.end(), std::begin(kFiles), std::end(kFiles));
  return all;
}

std::string_view schema_named(std::string_view name) {
  for (const OutputSchema& schema : output_schemas()) {
    if (schema.name == name) return schema.text;
  }
  for (const std::string_view file : kFiles) {
    if (file == name) return json_schema(file);
  }
  return {};
}

Expected<int> run(const SchemaOptions& options, const Output& output) {
  if (options.name.empty()) {
    if (output.json) output.print({{"schemas", names()}});
    for (const std::string_view name : names()) {
      if (!output.json) std::cout << name << '\n';
    }
    return kDone;
  }
  const std::string_view text = schema_named(options.name);
  if (text.empty()) {
    return make_error(ErrorCode::bad_argument, "unknown schema",
                      {.found = options.name, .expected = "one of " + joined(names())});
  }
  std::cout << text;  // which is one JSON object
  return kDone;
}

}  // namespace

void add_schema(Command& program) {
  auto options = std::make_shared<SchemaOptions>();
  Command command =
      program.add_subcommand("schema", "the JSON schema of what a command prints with --json, or of a file");
  command.add_option("NAME", options->name,
                     "a command, error, schedule, program, tables, ...; none: the list");
  command.runs(run, options);
}

}  // namespace ppsim::cli
