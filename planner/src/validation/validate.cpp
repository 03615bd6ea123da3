#include "ppsim/planner/validate.hpp"

#include <algorithm>
#include <map>

#include "ppsim/core/ir/overflow.hpp"
#include "ppsim/planner/costs/workload_words.hpp"
#include "ppsim/workload/cluster.hpp"
#include "readers.hpp"
#include "run_workload.hpp"

namespace ppsim::planner {
namespace {

const RunDescription* described_run(const MeasuredRow& row) { return std::get_if<RunDescription>(&row.run); }

bool is_dense(const MeasuredRow& row) {
  return described_run(row) != nullptr && !described_run(row)->is_moe();
}

bool is_dense_of(const MeasuredRow& row, MeasurementKind kind) { return row.kind == kind && is_dense(row); }

/// Whether the software runs any communication beside computation.
bool overlaps(const MeasuredRow& row) {
  if (described_run(row) == nullptr) return false;
  const auto stack = stack_from_argument(described_run(row)->stack);
  return stack &&
         (stack->overlap_tensor || stack->overlap_data || stack->overlap_pipeline || stack->overlap_experts);
}

/// A run of a source, or of a model whose kind or GPU, that no constant is fitted to.
bool is_held_out(const MeasuredRow& row) {
  if (described_run(row) == nullptr) return false;
  if (!may_be_fitted_to(row.kind)) return true;
  const auto cluster = cluster_from_name(described_run(row)->cluster, 1);
  return !is_dense(row) || (cluster && !is_fitted_to(*cluster));
}

bool is_vtrain(const MeasuredRow& row) {
  return row.kind == MeasurementKind::vtrain && described_run(row) != nullptr;
}

struct NamedGroup {
  std::string_view name;
  bool (*holds)(const MeasuredRow&);
};

constexpr NamedGroup kGroups[] = {
    {"stage times given", [](const MeasuredRow& row) { return row.kind == MeasurementKind::stage_times; }},
    {"published dense", [](const MeasuredRow& row) { return is_dense_of(row, MeasurementKind::published); }},
    {"vTrain GPT-3 175B",
     [](const MeasuredRow& row) { return is_vtrain(row) && described_run(row)->model.hidden == 12288; }},
    {"vTrain PP > 1",
     [](const MeasuredRow& row) { return is_vtrain(row) && described_run(row)->pipeline > 1; }},
    {"vTrain PP = 1",
     [](const MeasuredRow& row) { return is_vtrain(row) && described_run(row)->pipeline == 1; }},
    {"B200 node dense", [](const MeasuredRow& row) { return is_dense_of(row, MeasurementKind::one_node); }},
    {"Megatron-Bridge dense",
     [](const MeasuredRow& row) { return is_dense_of(row, MeasurementKind::megatron_bridge); }},
    {"llm-foundry", [](const MeasuredRow& row) { return is_dense_of(row, MeasurementKind::llm_foundry); }},
    {"dense", is_dense},
    {"mixture of experts",
     [](const MeasuredRow& row) { return described_run(row) != nullptr && !is_dense(row); }},
    {"overlapped stacks", overlaps},
    {"overlapped and held out", [](const MeasuredRow& row) { return overlaps(row) && is_held_out(row); }},
};

/// Kind of model, GPU and precision: what a prediction can be near to.
std::string class_name(const MeasuredRow& row) {
  const RunDescription* run = described_run(row);
  if (run == nullptr) return {};
  const auto cluster = cluster_from_name(run->cluster, 1);
  const std::string gpu = cluster ? cluster->gpu.name : run->cluster;
  return std::string(run->is_moe() ? "moe " : "dense ") + gpu + " " +
         std::string(precision_name(run->precision));
}

/// Errors of the comparisons of which `name` says the same, in the order in which the names come first.
void add_groups(const Validation& validation, std::string (*name)(const MeasuredRow&), Agreement& agreement) {
  std::vector<std::string> names;
  std::map<std::string, std::vector<double>> errors;
  for (const Comparison& one : agreement.comparisons) {
    const std::string group = name(validation.rows[one.row]);
    if (!one.simulated || group.empty()) continue;
    if (errors.find(group) == errors.end()) names.push_back(group);
    errors[group].push_back(one.error_percent());
  }
  for (const std::string& group : names) agreement.groups.push_back({group, error_statistics(errors[group])});
}

void add_named_group(const Validation& validation, const NamedGroup& group, Agreement& agreement) {
  std::vector<double> errors;
  for (const Comparison& one : agreement.comparisons) {
    if (one.simulated && group.holds(validation.rows[one.row])) errors.push_back(one.error_percent());
  }
  if (!errors.empty()) agreement.groups.push_back({std::string(group.name), error_statistics(errors)});
}

void summarize_agreement(const Validation& validation, Agreement& agreement) {
  for (const NamedGroup& group : kGroups) add_named_group(validation, group, agreement);
  add_groups(
      validation, [](const MeasuredRow& row) { return "source " + row.source; }, agreement);
  add_groups(validation, class_name, agreement);
  std::vector<double> errors;
  for (const Comparison& one : agreement.comparisons) {
    if (one.simulated) errors.push_back(one.error_percent());
  }
  agreement.all = error_statistics(errors);
}

/// The simulation of a row, or the reason why there is none.
tl::expected<SimulatedRun, std::string> simulated(const MeasuredRow& row, const RunEffects& effects) {
  if (const auto* not_run = std::get_if<NotRun>(&row.run)) return tl::unexpected(not_run->reason);
  const auto* stages = std::get_if<StageRun>(&row.run);
  try {
    auto run = stages != nullptr ? simulate_run(*stages) : simulate_run(*described_run(row), {}, effects);
    if (run) return *std::move(run);
    return tl::unexpected(to_string(run.error()));
  } catch (const Overflow& sum) {
    return tl::unexpected(std::string("times or sizes that 64 bits do not hold: ") + sum.what());
  }
}

/// Of the rank, or the most of all; nothing where sizes are not known.
std::optional<double> allocated(const SimulatedRun& run, const std::optional<int>& rank) {
  if (run.allocated.empty()) return std::nullopt;
  if (rank) return static_cast<double>(run.allocated.at(as_size(*rank)));
  return static_cast<double>(*std::ranges::max_element(run.allocated));
}

void compare_row(Validation& validation, std::size_t index) {
  const MeasuredRow& row = validation.rows[index];
  const auto run = simulated(row, validation.effects);
  const std::string reason = run ? "" : run.error();
  if (row.seconds || row.memory.empty()) {
    Comparison step{.row = index, .measured = row.seconds.value_or(0), .reason = reason};
    if (run) step.simulated = run->step_s;
    validation.steps.comparisons.push_back(std::move(step));
  }
  for (const MeasuredMemory& memory : row.memory) {
    Comparison one{.row = index, .rank = memory.rank, .measured = memory.bytes, .reason = reason};
    if (run) one.simulated = allocated(*run, memory.rank);
    if (run && !one.simulated) one.reason = "no sizes are known";
    validation.memory.comparisons.push_back(std::move(one));
  }
}

}  // namespace

Validation validate(std::vector<MeasuredRow> rows, const RunEffects& effects) {
  Validation validation;
  validation.effects = effects;
  validation.rows = std::move(rows);
  for (std::size_t i = 0; i < validation.rows.size(); ++i) compare_row(validation, i);
  summarize_agreement(validation, validation.steps);
  summarize_agreement(validation, validation.memory);
  validation.constants = workload::constants();
  for (Constant& constant : stage_run_constants()) validation.constants.push_back(std::move(constant));
  return validation;
}

}  // namespace ppsim::planner
