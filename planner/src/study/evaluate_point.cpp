#include <sstream>

#include "plan/bounds.hpp"
#include "plan/row.hpp"
#include "plan/structure.hpp"
#include "ppsim/planner/costs/workload_words.hpp"
#include "ppsim/planner/study.hpp"

namespace ppsim::planner {
namespace {

constexpr double kNanosecondsOfHour = 3.6e12;

/// Reads the values of one point.
class PointWords {
 public:
  explicit PointWords(const StudyPoint& point) : values_(point.values) {}

  [[nodiscard]] std::string text(const std::string& name, const std::string& otherwise) const {
    const auto found = values_.find(name);
    return found == values_.end() ? otherwise : found->second;
  }
  [[nodiscard]] bool has(const std::string& name) const { return values_.contains(name); }

  /// Errors: bad_argument for what is no whole number from 1 on.
  [[nodiscard]] Expected<int> count(const std::string& name, int otherwise) const {
    if (!has(name)) return otherwise;
    const std::string& value = values_.at(name);
    std::istringstream stream(value);
    int number = 0;
    if (stream >> number && stream.eof() && number >= 1) return number;
    return make_error(ErrorCode::bad_argument, name + " is no whole number from 1 on",
                      {.found = value, .expected = "such as 8"});
  }

 private:
  const std::map<std::string, std::string>& values_;
};

Expected<void> read_spread(const PointWords& words, Parallelism& parallelism) {
  const std::vector<std::pair<const char*, int*>> counts = {
      {"tp", &parallelism.tensor},
      {"pp", &parallelism.pipeline},
      {"cp", &parallelism.context},
      {"ep", &parallelism.expert},
      {"microbatch_size", &parallelism.microbatch_size},
      {"global_batch_size", &parallelism.global_batch_size}};
  for (const auto& [name, value] : counts) {
    PPSIM_ASSIGN_OR_RETURN(const auto number, words.count(name, 1));
    *value = number;
  }
  if (words.has("sequence_length")) {
    PPSIM_ASSIGN_OR_RETURN(const auto length, words.count("sequence_length", 1));
    parallelism.sequence = length;
  }
  const std::string fsdp = words.text("fsdp", "false");
  parallelism.sharded_parameters = fsdp == "true" || fsdp == "on";
  if (parallelism.sharded_parameters || fsdp == "false" || fsdp == "off") return {};
  return make_error(ErrorCode::bad_argument, "fsdp is on or off",
                    {.found = fsdp, .expected = "on, off, true or false"});
}

/// As many replicas as the GPUs leave, where none are said.
Expected<int> replicas_of(const PointWords& words, const Parallelism& parallelism, int gpus) {
  if (words.has("dp")) return words.count("dp", 1);
  const std::int64_t others = std::int64_t{parallelism.tensor} * parallelism.pipeline * parallelism.context;
  if (gpus % others == 0) return static_cast<int>(gpus / others);
  return make_error(ErrorCode::bad_argument, "tp x pp x cp must divide the number of GPUs",
                    {.found = std::to_string(others), .expected = "a divisor of " + std::to_string(gpus)});
}

/// A point as a plan.
struct PlannedPoint {
  PlanRequest request;
  PlanChoice choice;
};

Expected<PlannedPoint> planned_point(const StudyPoint& point) {
  const PointWords words(point);
  PPSIM_ASSIGN_OR_RETURN(const auto nodes, words.count("nodes", 1));
  WorkloadWords asked{.model = words.text("model", ""),
                      .cluster = words.text("cluster", ""),
                      .nodes = nodes,
                      .dtype = words.text("dtype", "bf16"),
                      .layout = words.text("layout", "even"),
                      .stack = words.text("stack", "megatron-core"),
                      .calibration = words.text("calibration", "")};
  PPSIM_RETURN_IF_ERROR(read_spread(words, asked.parallelism));
  PPSIM_ASSIGN_OR_RETURN(const auto recompute, recompute_from_words(words.text("recompute", "none")));
  asked.parallelism.recompute = recompute.stages;
  asked.checkpoints = recompute.checkpoints;
  PPSIM_ASSIGN_OR_RETURN(auto work, workload_to_search(asked));
  PPSIM_ASSIGN_OR_RETURN(const auto replicas, replicas_of(words, work.parallelism, work.cluster.gpu_count()));
  work.parallelism.data = replicas;
  PlannedPoint planned;
  planned.choice = {
      .nodes = nodes, .parallelism = work.parallelism, .schedule = words.text("schedule", "1f1b")};
  if (words.has("chunks")) {
    PPSIM_ASSIGN_OR_RETURN(const auto chunks, words.count("chunks", 1));
    planned.choice.chunks = chunks;
  }
  if (const auto* rule = std::get_if<LayoutRule>(&work.layout)) {
    planned.choice.layout = *rule;
  } else {
    return make_error(ErrorCode::bad_argument, "no layout of a study",
                      {.found = asked.layout, .expected = "even or auto"});
  }
  planned.request.work = std::move(work);
  return planned;
}

PointResult impossible(const Error& error) {
  return {.status = PointStatus::impossible, .reason = to_string(error)};
}

}  // namespace

std::string_view status_name(PointStatus status) {
  switch (status) {
    case PointStatus::fits:
      return "fits";
    case PointStatus::does_not_fit:
      return "does_not_fit";
    case PointStatus::impossible:
      return "impossible";
  }
  return "impossible";
}

struct PointEvaluator::State {
  Structures structures;
  Placements placements;

  /// A lower bound on the plan's memory; 0 where none is known: bounds take what an F saves as kept for a
  /// backward.
  [[nodiscard]] Expected<Bytes> min_bytes(const PlannedPoint& planned) {
    const PlanChoice& choice = planned.choice;
    const Workload work = workload_of(planned.request, choice);
    PPSIM_RETURN_IF_ERROR(check_parallelism(work.parallelism, work.model, work.cluster));
    PPSIM_ASSIGN_OR_RETURN(const auto info, find_schedule(choice.schedule));
    const auto placed =
        placements.one({info, choice.chunks}, choice.parallelism.pipeline, choice.parallelism.microbatches());
    if (!placed || info->uses_costs || info->forward_only) return Bytes{0};
    PPSIM_ASSIGN_OR_RETURN(auto costs, analytic_costs(work, placed->placement->pipeline));
    const StructureKey key{info->name, choice.chunks.value_or(0), choice.parallelism.pipeline,
                           choice.parallelism.microbatches(), false};
    PPSIM_ASSIGN_OR_RETURN(const auto moments, structures.moments(key, costs.tables.costs));
    return PlacedCosts(work, placed->placement, std::move(costs)).peak_of(*moments);
  }
};

PointEvaluator::PointEvaluator() : state_(std::make_unique<State>()) {}
PointEvaluator::~PointEvaluator() = default;
PointEvaluator::PointEvaluator(PointEvaluator&&) noexcept = default;
PointEvaluator& PointEvaluator::operator=(PointEvaluator&&) noexcept = default;

PointResult PointEvaluator::operator()(const StudyPoint& point) {
  const auto planned = planned_point(point);
  if (!planned) return impossible(planned.error());
  const auto least = state_->min_bytes(*planned);
  if (!least) return impossible(least.error());
  const Bytes limit = planned->request.work.cluster.gpu.memory_bytes;
  if (*least > limit) return {.status = PointStatus::does_not_fit, .min_bytes = *least};
  const auto row = plan_row(planned->request, planned->choice);
  if (!row) return impossible(row.error());
  if (row->peak_bytes > limit) return {.status = PointStatus::does_not_fit, .min_bytes = row->peak_bytes};
  const double gpus = planned->request.work.cluster.gpu_count();
  return {.status = PointStatus::fits,
          .row = *row,
          .gpu_hours = gpus * static_cast<double>(row->step) / kNanosecondsOfHour};
}

}  // namespace ppsim::planner
