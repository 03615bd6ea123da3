#include "given_run.hpp"

#include <array>

#include "ppsim/core/text/nearest.hpp"
#include "ppsim/workload/stack.hpp"

namespace ppsim::planner {
namespace {

using Reason = tl::unexpected<std::string>;

constexpr std::int64_t kMaxPasses = 1 << 20;  // seconds; published steps have some 50,000 at most

/// The first name of each is its own.
constexpr auto kPrecisions = std::to_array<std::pair<std::string_view, Precision>>({
    {"fp16", Precision::fp16},
    {"bf16", Precision::bf16},
    {"fp8", Precision::fp8},
    {"mxfp8", Precision::mxfp8},
    {"nvfp4", Precision::nvfp4},
    {"float16", Precision::fp16},
    {"bfloat16", Precision::bf16},
    {"float8", Precision::fp8},
    {"fp8-cs", Precision::fp8},
    {"fp8-mx", Precision::mxfp8},
});

/// Everything that a run needs a number of and nobody can guess.
std::string missing(const GivenRun& given) {
  const std::pair<const char*, bool> fields[] = {{"the model", !given.model.empty()},
                                                 {"the system", !given.system.empty()},
                                                 {"the number of GPUs", given.gpus.has_value()},
                                                 {"the precision", !given.precision.empty()},
                                                 {"the global batch size", given.global_batch.has_value()},
                                                 {"the microbatch size", given.microbatch.has_value()},
                                                 {"the sequence length", given.sequence.has_value()},
                                                 {"tp", given.tensor.has_value()},
                                                 {"pp", given.pipeline.has_value()}};
  std::string names;
  for (const auto& [name, is_given] : fields) {
    if (!is_given) names += (names.empty() ? "" : ", ") + std::string(name);
  }
  return names;
}

tl::expected<Precision, std::string> precision_called(const std::string& text) {
  for (const auto& [name, precision] : kPrecisions) {
    if (name == lower_case(text)) return precision;
  }
  return Reason("the precision " + text + " is not known");
}

/// `none`, `full`, `selective`, or nothing; `+SP` after it stands for sequence parallelism.
std::string set_recompute(const std::string& text, RunDescription& run) {
  if (text.empty()) return {};
  std::string name = lower_case(text);
  const std::size_t plus = name.find("+sp");
  if (plus != std::string::npos) {
    run.sequence_parallel = true;
    name.erase(plus);
  }
  for (const Recompute choice : {Recompute::none, Recompute::selective, Recompute::full}) {
    if (name == recompute_name(choice)) run.recompute = choice;
  }
  return run.recompute ? std::string() : "the recomputation " + text + " is not known";
}

/// The name of a schedule as sources have it. One stage on a rank leaves nothing to interleave.
std::string set_schedule(const std::string& text, RunDescription& run) {
  const std::string name = lower_case(text);
  const bool usual =
      name.empty() || name == "none" || name == "1f1b" || name == "interleaved" || name == "interleaved-1f1b";
  if (!usual) {
    run.schedule = name;
    return {};
  }
  if (run.pipeline == 1) run.chunks = 1;
  run.schedule = run.chunks > 1 ? "interleaved-1f1b" : "1f1b";
  return {};
}

std::string check_division(const RunDescription& run) {
  const std::int64_t stages = std::int64_t{run.pipeline} * run.chunks;
  if (run.layout.empty() && stages > run.model.layers + 2) {
    return std::to_string(stages) + " stages are too many for " + std::to_string(run.model.layers) +
           " layers";
  }
  const std::int64_t replica = std::int64_t{run.tensor} * run.pipeline * run.context;
  if (run.gpus % replica != 0)
    return std::to_string(run.gpus) + " GPUs are no multiple of tp x pp x cp, " + std::to_string(replica);
  const std::int64_t batch = std::int64_t{run.data()} * run.microbatch_size;
  if (run.global_batch_size % batch != 0) {
    return "the global batch of " + std::to_string(run.global_batch_size) +
           " is no multiple of dp x microbatch size, " + std::to_string(batch);
  }
  const std::int64_t passes = run.global_batch_size / batch * stages;
  if (passes > kMaxPasses) {
    return std::to_string(passes) + " forward passes of a pipeline are too many to simulate, more than " +
           std::to_string(kMaxPasses);
  }
  return {};
}

}  // namespace

GivenRun given_by_options(SheetRow& row, std::string_view gpus, std::string_view sequence) {
  GivenRun given{
      .model = row.text("model"), .system = row.text("system"), .precision = row.text("precision")};
  given.gpus = row.whole(gpus);
  given.global_batch = row.whole("gbs");
  given.microbatch = row.whole("mbs");
  given.sequence = row.whole(sequence);
  given.tensor = row.whole("tp");
  given.pipeline = row.whole("pp");
  given.chunks = row.whole("vp");
  given.context = row.whole("cp");
  given.expert = row.whole("ep");
  given.fsdp = row.whole("fsdp", 0);
  return given;
}

std::string lower_case(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

std::string_view precision_name(Precision precision) {
  for (const auto& [name, known] : kPrecisions) {
    if (known == precision) return name;
  }
  return "unknown";
}

void read_software(SheetRow& row, const std::string& usual, GivenRun& given) {
  given.schedule = row.text("schedule");
  given.recompute = row.text("recompute");
  given.layout = row.text("layout");
  given.stack = row.text("stack");
  if (given.stack.empty()) given.stack = usual;
  if (given.stack.ends_with(".json")) return;
  if (const auto known = stack_from_name(given.stack); !known)
    row.refuse("stack", known.error().message, known.error().place.expected);
}

std::variant<RunDescription, StageRun, NotRun> described(const GivenRun& given) {
  if (const std::string names = missing(given); !names.empty()) return NotRun{"not given: " + names};
  const auto model = model_called(given.model);
  if (!model) return NotRun{model.error()};
  const auto cluster = cluster_called(given.system);
  if (!cluster) return NotRun{cluster.error()};
  const auto precision = precision_called(given.precision);
  if (!precision) return NotRun{precision.error()};
  RunDescription run{.model = *model,
                     .cluster = *cluster,
                     .gpus = *given.gpus,
                     .precision = *precision,
                     .global_batch_size = *given.global_batch,
                     .microbatch_size = *given.microbatch,
                     .sequence = *given.sequence,
                     .tensor = *given.tensor,
                     .pipeline = *given.pipeline,
                     .chunks = given.chunks.value_or(1),
                     .context = given.context.value_or(1),
                     .expert = given.expert.value_or(1),
                     .fsdp = given.fsdp.value_or(0),
                     .layout = given.layout,
                     .stack = given.stack};
  for (const std::string& reason :
       {set_recompute(given.recompute, run), set_schedule(given.schedule, run), check_division(run)}) {
    if (!reason.empty()) return NotRun{reason};
  }
  return run;
}

}  // namespace ppsim::planner
