#include <filesystem>
#include <iostream>
#include <sstream>

#include "command.hpp"
#include "ppsim/planner/export.hpp"
#include "ppsim/planner/files.hpp"

namespace ppsim::cli {
namespace {

struct Options {
  std::string framework, folder, layers;
  InputOptions input;
};

/// "4,5,5,4".
Expected<std::vector<int>> layers_of(const std::string& text) {
  std::vector<int> layers;
  std::istringstream items(text);
  for (std::string item; std::getline(items, item, ',');) {
    int count = 0;
    if (!read_number(item, count) || count < 0) {
      return make_error(ErrorCode::bad_argument, "--layers out of range",
                        {.found = item, .expected = "numbers of 0 or more, such as 7,8,8,7"});
    }
    layers.push_back(count);
  }
  return layers;
}

/// A Program's rows of computation are what frameworks lower themselves.
Expected<Schedule> schedule_of(const Ir& ir) {
  if (const auto* schedule = std::get_if<Schedule>(&ir)) return *schedule;
  return make_error(
      ErrorCode::bad_argument, "frameworks lower schedules themselves: this is a Program",
      {.found = "transfers", .expected = "ppsim convert IN OUT.csv --flavor compute_only first"});
}

Expected<Export> exported(const Options& options) {
  const auto framework = framework_named(options.framework);
  if (!framework) return tl::unexpected(framework.error());
  const auto layers = layers_of(options.layers);
  if (!layers) return tl::unexpected(layers.error());
  const auto subject = read_subject(options.input, {});
  if (!subject) return tl::unexpected(subject.error());
  const auto schedule = schedule_of(subject->ir);
  if (!schedule) return tl::unexpected(schedule.error());
  return export_for(*framework, *schedule, *layers);
}

Expected<void> write_all(const std::string& folder, const Export& result) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed)
    return make_error(ErrorCode::io, "cannot make the folder: " + failed.message(), {.file = folder});
  for (const ExportedFile& file : result.files) {
    const std::string path = (std::filesystem::path(folder) / file.name).string();
    if (auto written = write_text_file(path, file.text); !written) return written;
  }
  return {};
}

int run(const Options& options, const Output& output) {
  const auto result = exported(options);
  if (!result) return report(result.error(), output);
  if (auto written = write_all(options.folder, *result); !written) return report(written.error(), output);
  std::vector<std::string> files;
  for (const ExportedFile& file : result->files)
    files.push_back((std::filesystem::path(options.folder) / file.name).string());
  if (output.json) {
    output.print({{"framework", options.framework}, {"files", files}, {"notes", result->notes}});
    return kDone;
  }
  for (const std::string& file : files) output.note("wrote " + file);
  for (const std::string& note : result->notes) std::cout << note << '\n';
  return kDone;
}

}  // namespace

void add_export(Command& program) {
  auto options = std::make_shared<Options>();
  Command command =
      program.add_subcommand("export", "write what makes torchtitan, Megatron-LM or MaxText run a schedule");
  command.add_option("FRAMEWORK", options->framework, "torchtitan, megatron or maxtext").required();
  command.add_option("IN", options->input.input, "FILE or NAME").required();
  command.add_option("-o,--output", options->folder, "folder to write to").required();
  command.add_option(
      "--layers", options->layers,
      "transformer layers of each stage, such as 7,8,8,7; default: the framework divides them");
  add_parameter_options(command, options->input);
  add_dialect_option(command, options->input.dialect);
  command.runs([options](const Output& output) { return run(*options, output); });
}

}  // namespace ppsim::cli
