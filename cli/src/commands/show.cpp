#include <unistd.h>

#include <sstream>

#include "command.hpp"
#include "command_line/validators.hpp"
#include "input/communicators.hpp"
#include "options/figures.hpp"
#include "options/option_uses.hpp"
#include "output/live_view.hpp"
#include "output/terminal.hpp"
#include "ppsim/core/io/text.hpp"
#include "ppsim/planner/evaluate.hpp"
#include "ppsim/planner/files.hpp"
#include "ppsim/planner/trace_file.hpp"
#include "ppsim/simulator/writers/timeline.hpp"

namespace ppsim::cli {
namespace {

struct ShowOptions {
  InputOptions input;
  CostOptions costs;
  std::string format, output = "-", palette = "colour-blind", trace, font, title;
  std::optional<int> row_height, columns;
  int width = 0;
  bool memory = false, live = false;
};

/// A run of a Program, simulated or read.
struct Drawing {
  std::string name;
  Program program;
  TimedTrace trace;
  bool unit_axis = false;
  IdVector<RankId, MemoryProfile> memory = {};  ///< where it is known and wanted
};

Expected<void> check_memory(const ShowOptions& options, const std::optional<CostBinding>& costs) {
  if (!options.memory || (costs && costs->has_sizes)) return {};
  return make_error(ErrorCode::bad_argument, "--memory needs sizes",
                    {.found = "", .expected = "--unit with A, such as F=1,B=2,A=1e9, or --costs or --model"});
}

Expected<Drawing> drawing_of(const ShowOptions& options, const Output& output) {
  CostOptions costs = options.costs;
  if (!costs.given()) costs.unit = "F=1,B=2";
  PPSIM_ASSIGN_OR_RETURN(auto subject, read_subject(options.input, costs));
  PPSIM_ASSIGN_OR_RETURN(auto program, default_program(subject));
  note_assumed_communicators(subject, output);
  PPSIM_RETURN_IF_ERROR(check_memory(options, subject.costs));
  if (!options.trace.empty()) {
    auto trace = read_trace_file(options.trace, program);
    const bool is_schedule = std::holds_alternative<Schedule>(subject.ir);
    if (!trace) return tl::unexpected(of_other_costs(trace.error(), is_schedule));
    Drawing drawing{subject.name, std::move(program), *std::move(trace)};
    if (options.memory) {
      const SizedTensors tensors = sized_tensors(drawing.program, subject.costs->tables.sizes);
      drawing.memory = replay_memory(drawing.program, drawing.trace, tensors.table, tensors.sizes);
    }
    return drawing;
  }
  PPSIM_ASSIGN_OR_RETURN(auto step, evaluate(subject.name, std::move(program), *std::move(subject.costs)));
  Drawing drawing{std::move(step.name), step.program(), std::move(step.trace), !costs.unit.empty()};
  if (options.memory) drawing.memory = std::move(step.metrics.memory);
  return drawing;
}

/// The rows of the Program, and the file where there is one.
Json shown_json(const Program& program, const std::string& file) {
  Json rows = Json::array();
  for (const RankId rank : program.pipeline().rank_ids()) {
    Json row = Json::array();
    for (const InstructionId id : program.ids_of(rank)) {
      row.push_back(instruction_text(program, id));
    }
    rows.push_back(std::move(row));
  }
  Json object;
  if (file != "-") object["file"] = file;
  object["rows"] = std::move(rows);
  return object;
}

/// --format, or what the suffix of the file says.
Expected<std::string> format_of(const ShowOptions& options, const Output& output) {
  if (output.json && options.output == "-" && !options.format.empty()) {
    return make_error(
        ErrorCode::bad_argument, "--json has stdout to itself: the picture needs a file",
        {.found = "--format " + options.format + " --json", .expected = "-o FILE, or one of the two"});
  }
  const std::string suffix = suffix_of(options.output);
  const std::string meant = suffix == ".svg" ? "svg" : suffix == ".pdf" ? "pdf" : "text";
  if (options.format.empty() || options.format == meant) return meant;
  if (suffix.empty()) return options.format;
  return make_error(
      ErrorCode::bad_argument, "--format is another one than that of the file",
      {.found = "--format " + options.format + " -o " + options.output,
       .expected = "a file that ends in ." + (options.format == "text" ? "txt" : options.format)});
}

using WriteFigure = void (*)(std::ostream&, const Program&, const TimedTrace&, const SvgOptions&);
constexpr WriteFigure kWriteSvg = write_svg, kWritePdf = write_pdf;

std::string title_of(const Drawing& step, const ShowOptions& options) {
  return options.title.empty() ? step.name : options.title;
}

/// The legend takes so much.
Expected<void> check_width(const ShowOptions& options) {
  constexpr int kMinPixels = 120;
  if (options.format == "text" || options.width == 0 || options.width >= kMinPixels) return {};
  return make_error(ErrorCode::bad_argument, "a picture is too narrow for its legend",
                    {.found = "--width " + std::to_string(options.width),
                     .expected = "at least " + std::to_string(kMinPixels) + " pixels"});
}

/// Refuses options that a PDF cannot honour.
Expected<void> check_pdf(const ShowOptions& options) {
  if (options.format != "pdf") return {};
  if (options.output == "-" && ::isatty(STDOUT_FILENO) == 1)
    return make_error(ErrorCode::bad_argument, "a PDF is no text for a terminal",
                      {.expected = "-o FILE.pdf"});
  return check_pdf_title(options.title);
}

/// The forms of the timeline that use each option; the font of a PDF is always Helvetica.
const std::vector<OptionUse>& picture_options() {
  static const std::vector<OptionUse> uses = {{"--font", {"svg"}},
                                              {"--title", {"svg", "pdf"}},
                                              {"--row-height", {"svg", "pdf"}},
                                              {"--columns", {"svg", "pdf"}},
                                              {"--memory", {"svg", "pdf"}},
                                              {"--width", {"text", "svg", "pdf"}},
                                              {"--palette", {"text", "svg", "pdf", "--live"}}};
  return uses;
}

/// The form that is asked for: a picture, the view on the terminal, or the rows alone.
std::string form_of(const ShowOptions& options, const Output& output) {
  if (options.live) return "--live";
  return output.json && options.output == "-" ? "--json" : options.format;
}

/// A picture is looked at, or written.
Expected<void> check_live(const ShowOptions& options, const Output& output) {
  const std::string other = output.json               ? "--json"
                            : options.output != "-"   ? "-o " + options.output
                            : !options.format.empty() ? "--format " + options.format
                                                      : "";
  if (!options.live || other.empty()) return {};
  return make_error(ErrorCode::bad_argument, "--live shows nothing but the timeline on the terminal",
                    {.found = "--live " + other, .expected = "one of the two"});
}

std::string picture(const Drawing& step, const ShowOptions& options, const Output& output, Palette palette) {
  std::ostringstream text;
  if (options.format != "text") {
    SvgOptions figure{.title = title_of(step, options), .palette = palette};
    if (options.width > 0) figure.width = options.width;
    if (options.columns) figure.width = column_pixels(*options.columns);
    if (options.row_height) figure.row_height = *options.row_height;
    if (!options.font.empty()) figure.font = options.font;
    figure.unit_axis = step.unit_axis;
    figure.memory = step.memory.items();
    const auto write = options.format == "svg" ? kWriteSvg : kWritePdf;
    write(text, step.program, step.trace, figure);
  } else {
    const auto columns = static_cast<int>(terminal_columns());
    const int width = options.width > 0 ? options.width : columns > 0 ? columns : 100;
    const bool colour = output.color() && options.output == "-";
    write_text_timeline(text, step.program, step.trace,
                        {.width = width, .colour = colour, .palette = palette});
  }
  return text.str();
}

Expected<int> run(ShowOptions options, const Command& command, const Output& output) {
  PPSIM_RETURN_IF_ERROR(check_live(options, output));
  PPSIM_ASSIGN_OR_RETURN(const auto format, format_of(options, output));
  options.format = format;
  PPSIM_RETURN_IF_ERROR(check_uses(command, picture_options(), form_of(options, output)));
  PPSIM_RETURN_IF_ERROR(check_width(options));
  PPSIM_RETURN_IF_ERROR(check_pdf(options));
  const auto palette = palette_from_name(options.palette);
  if (!palette) {
    return make_error(ErrorCode::bad_argument, "unknown --palette",
                      {.found = options.palette,
                       .expected = std::string(palette_name(Palette::colour_blind)) + " or " +
                                   std::string(palette_name(Palette::pytorch))});
  }
  PPSIM_ASSIGN_OR_RETURN(const auto step, drawing_of(options, output));
  if (options.live) {
    PPSIM_RETURN_IF_ERROR(show_live(step.program, step.trace, *palette));
    return kDone;
  }
  if (!output.json || options.output != "-") {
    PPSIM_RETURN_IF_ERROR(write_text_file(options.output, picture(step, options, output, *palette)));
  }
  if (output.json) output.print(shown_json(step.program, options.output));
  return kDone;
}

}  // namespace

void add_show(Command& program) {
  auto options = std::make_shared<ShowOptions>();
  Command command = program.add_subcommand("show", "draw the timeline of a schedule or program");
  command.add_option("INPUT", options->input.input, "FILE or NAME; without costs F=1, B=2").required();
  add_input_options(command, options->input);
  command
      .add_option("--format", options->format,
                  "text, svg or pdf; default: what the suffix of -o says, or text")
      .check(one_of({"text", "svg", "pdf"}));
  command.add_option("-o,--output", options->output, "FILE.txt, FILE.svg, FILE.pdf or -")
      .show_default()
      .check(output_file({".txt", ".svg", ".pdf"}));
  command.add_option("--trace", options->trace, "draw this run of the program: what --trace X.csv wrote");
  const Option width =
      command.add_option("--width", options->width, "characters or pixels").check(whole(20, 20000));
  add_columns_option(command, options->columns, width);
  command.add_option("--title", options->title, "of the picture; default: the name of the schedule");
  command.add_option("--row-height", options->row_height, "pixels of a rank in the picture (26)")
      .check(whole(4, 400));
  command.add_option("--font", options->font, "of the SVG picture, such as \"Times, serif\"");
  command.add_flag("--memory", options->memory, "memory over time below the picture, of every rank");
  command.add_flag("--live", options->live, "scroll and zoom on the terminal: arrows, + and -, 0, Q");
  command.add_option("--palette", options->palette, "colour-blind or pytorch").show_default();
  add_cost_options(command, options->costs);
  command.runs([options, command](const Output& output) { return run(*options, command, output); });
}

}  // namespace ppsim::cli
