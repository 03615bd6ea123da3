// Measured times of the stages of 1F1B, and of the iterations that they make: simulates the pipeline alone.
// Source: sail-sg/VocabularyParallelism, artifact/ (arXiv 2411.05288, section 6): GPTs of Megatron-LM on A100
// nodes, microbatches of one sequence, named fullpp_<method>_dp1_pp8_tp1_v256k_s2k.

#include <algorithm>
#include <array>
#include <cmath>

#include "decimal.hpp"
#include "ppsim/core/ir/check.hpp"
#include "ppsim/planner/evaluate.hpp"
#include "ppsim/planner/ir_source.hpp"
#include "ppsim/workload/cluster.hpp"
#include "readers.hpp"

namespace ppsim::planner {
namespace {

// Optimizer: bytes that one step of mixed-precision Adam reads and writes of a parameter, an estimate.
constexpr double kOptimizerTraffic = 50;
// A transfer: NCCL 2.27.3 takes 56.05 us for an all-to-all of 8 MiB between two A100 and 98.31 us for 16 MiB
// (ai-dynamo/aiconfigurator@095f58a, measured); a line through both. That a rank waits for each send and each
// receive, one after the other, is a reading of "blocking": where both directions overlap, the steps of the
// published table are some 0.1 % shorter.
constexpr double kSendLatency = 13.79e-6;
constexpr double kSendRate = 198.5e9;
constexpr double kBoundaryBytes = 2;  // bf16 or fp16

constexpr double kLongestTime = 1e9;  // microseconds
constexpr double kMaxThousands = 1 << 20;

/// The GPT of each number of pipeline ranks (artifact/run_exp.md).
struct Shape {
  int ranks;
  std::int64_t layers;
  std::int64_t hidden;
};
constexpr auto kShapes = std::to_array<Shape>({{8, 32, 3072}});

/// The number after a letter, in thousands: 256 of `..._v256k_...`.
std::optional<std::int64_t> thousands(std::string_view name, char letter) {
  for (const std::string_view part : split(name, '_')) {
    if (part.size() < 3 || part.front() != letter || part.back() != 'k') continue;
    const auto value = parse_decimal(std::string(part.substr(1, part.size() - 2)));
    if (value && *value > 0 && *value <= kMaxThousands) return static_cast<std::int64_t>(*value);
  }
  return std::nullopt;
}

std::vector<Nanoseconds> times(SheetRow& row, std::string_view column, int ranks) {
  std::vector<Nanoseconds> result;
  for (const double us : row.positives(column)) {
    if (us > kLongestTime) row.refuse(column, "a time is too long", "at most 10^9 microseconds");
    result.push_back(std::llround(std::min(us, kLongestTime) * 1e3));
  }
  if (result.size() != as_size(ranks))
    row.refuse(column, "not a time for each pipeline rank", std::to_string(ranks) + " numbers above 0");
  return result;
}

std::variant<RunDescription, StageRun, NotRun> stage_run_of(SheetRow& row) {
  const int ranks = row.whole("pipeline_ranks").value_or(1);
  StageRun run{.forward = times(row, "forward_us_per_rank", ranks),
               .backward = times(row, "backward_us_per_rank", ranks),
               .microbatches = row.whole("microbatches").value_or(1),
               .gpu = "a100-sxm-80gb"};
  const std::string name = row.text("case");
  const auto vocabulary = thousands(name, 'v');
  const auto sequence = thousands(name, 's');
  if (!vocabulary || !sequence)
    return NotRun{"the case " + name + " does not name vocabulary and sequence as in ..._v256k_s2k"};
  const auto shape = std::ranges::find(kShapes, ranks, &Shape::ranks);
  if (shape == kShapes.end()) return NotRun{"the model of " + std::to_string(ranks) + " ranks is not known"};
  run.boundary = static_cast<Bytes>(kBoundaryBytes) * *sequence * 1024 * shape->hidden;
  run.parameters =
      shape->layers / ranks * 12 * shape->hidden * shape->hidden + *vocabulary * 1000 * shape->hidden;
  return run;
}

/// F and B with the transfers that hold them up: each rank receives, computes and sends, one after the other.
CostTable blocking_costs(const StageRun& run) {
  const double transfer = (kSendLatency + static_cast<double>(run.boundary) / kSendRate) * 1e9;
  const int last = static_cast<int>(run.forward.size()) - 1;
  CostTable costs;
  for (int stage = 0; stage <= last; ++stage) {
    const int neighbours = (stage > 0 ? 1 : 0) + (stage < last ? 1 : 0);
    const Nanoseconds held = std::llround(neighbours * transfer);
    costs.set({OpKind::forward, stage}, run.forward[as_size(stage)] + held);
    costs.set({OpKind::backward, stage}, run.backward[as_size(stage)] + held);
  }
  return costs;
}

double optimizer_seconds(const StageRun& run) {
  const auto gpu = std::ranges::find(gpu_presets(), run.gpu, &GpuDescription::name);
  PPSIM_CHECK(gpu != gpu_presets().end(), "the GPU of measured stage times is a preset");
  return kOptimizerTraffic * static_cast<double>(run.parameters) / (gpu->memory_tbps * 1e12);
}

}  // namespace

MeasuredRow read_stage_times(SheetRow& row) {
  const std::string source = row.text("source");
  MeasuredRow result{.source = source.empty() ? "VocabularyParallelism" : source,
                     .label = row.text("case"),
                     .run = stage_run_of(row)};
  const auto step = row.positive("iteration_ms");
  if (!step) row.refuse("iteration_ms", "a measurement is missing", "a number above 0");
  if (step) result.seconds = *step * 1e-3;
  return result;
}

std::vector<Constant> stage_run_constants() {
  const std::string nccl =
      "a line through two measured all-to-alls of NCCL 2.27.3 on two A100, ai-dynamo/aiconfigurator@095f58a";
  return {{"stage_times.optimizer_traffic", kOptimizerTraffic, "bytes a parameter",
           "an estimate for mixed-precision Adam: passes over gradients, weights and moments"},
          {"stage_times.send_latency", kSendLatency, "s", nccl},
          {"stage_times.send_rate", kSendRate, "bytes/s", nccl}};
}

Expected<SimulatedRun> simulate_run(const StageRun& run) {
  ScheduleParameters parameters;
  parameters.ranks = static_cast<int>(run.forward.size());
  parameters.microbatches = run.microbatches;
  PPSIM_ASSIGN_OR_RETURN(const auto ir, ir_from_name("1f1b", parameters));
  CostBinding costs;
  costs.tables.costs = blocking_costs(run);
  PPSIM_ASSIGN_OR_RETURN(auto program, to_program(ir, {}, &costs.tables.costs));
  PPSIM_ASSIGN_OR_RETURN(const auto step, evaluate("1f1b", std::move(program), std::move(costs)));
  return SimulatedRun{static_cast<double>(step.metrics.times.makespan) * 1e-9 + optimizer_seconds(run), {}};
}

}  // namespace ppsim::planner
