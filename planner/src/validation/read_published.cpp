// Figures as papers and release notes give them, each with the name of its metric.

#include "given_run.hpp"
#include "metric.hpp"
#include "readers.hpp"

namespace ppsim::planner {
namespace {

struct StackOfSource {
  std::string_view source;  ///< begins so
  std::string_view stack;
};

/// The software that the sources describe.
constexpr StackOfSource kStackOfSource[] = {{"arXiv:2104.04473", "megatron-2021"},
                                            {"arXiv:2205.05198", "megatron-2022"},
                                            {"torchtitan", "torchtitan"},
                                            {"vTrain", "deepspeed"}};

std::string usual_stack(const std::string& source) {
  for (const auto& [begin, stack] : kStackOfSource) {
    if (source.starts_with(begin)) return std::string(stack);
  }
  return "megatron-core";
}

/// What tells the runs of one source apart.
std::string published_label(const SheetRow& row) {
  std::string label = row.text("model");
  if (!row.text("gpus").empty()) label += ", " + row.text("gpus") + " GPUs";
  if (!row.text("tp").empty()) label += ", tp " + row.text("tp");
  if (!row.text("pp").empty()) label += " pp " + row.text("pp");
  if (!row.text("vp").empty() && row.text("vp") != "1") label += " vp " + row.text("vp");
  if (!row.text("recompute").empty()) label += ", recompute " + row.text("recompute");
  return label + ", " + row.text("metric");
}

}  // namespace

MeasuredRow read_published(SheetRow& row) {
  GivenRun given{
      .model = row.text("model"), .system = row.text("system"), .precision = row.text("precision")};
  given.gpus = row.whole("gpus");
  given.global_batch = row.whole("gbs");
  given.microbatch = row.whole("mbs");
  given.sequence = row.whole("seq");
  given.tensor = row.whole("tp");
  given.pipeline = row.whole("pp");
  given.chunks = row.whole("vp");
  given.context = row.whole("cp");
  given.expert = row.whole("ep");
  given.fsdp = row.whole("fsdp", 0);
  const std::string source = row.text("source");
  read_software(row, usual_stack(source), given);
  MeasuredRow result{.source = source, .label = published_label(row), .run = described(given)};
  const auto value = row.positive("value");
  if (!value) row.refuse("value", "a measurement is missing", "a number above 0");
  const auto* run = std::get_if<RunDescription>(&result.run);
  if (run == nullptr || !value) return result;
  const auto figure = figure_of(row.text("metric"), *value, *run);
  if (!figure) {
    result.run = NotRun{figure.error()};
    return result;
  }
  result.seconds = figure->seconds;
  if (figure->bytes) result.memory.push_back({.rank = {}, .bytes = *figure->bytes});
  return result;
}

}  // namespace ppsim::planner
