#include "metrics_json.hpp"

#include "options/transport_choice.hpp"
#include "ppsim/core/io/text.hpp"
#include "ppsim/core/ir/hash.hpp"
#include "ppsim/core/text/as_text.hpp"
#include "ppsim/planner/memory/allocator_peaks.hpp"
#include "ppsim/planner/memory/peak_contents.hpp"
#include "ppsim/workload/layout.hpp"

namespace ppsim::cli {
namespace {

Json bubble_json(const BubbleBreakdown& bubble) {
  return {{"warmup", bubble.warmup},
          {"steady", bubble.steady},
          {"cooldown", bubble.cooldown},
          {"exposed_communication", bubble.exposed_communication},
          {"imbalance", bubble.imbalance}};
}

/// Bytes by kind of tensor; null where sizes are not known.
Json contents_json(const SimulatedStep& step, const std::vector<KindBytes>& contents) {
  if (!step.costs.has_sizes) return Json();
  Json object = Json::object();
  for (const KindBytes& of_kind : contents) object[std::string(info(of_kind.kind).name)] = of_kind.bytes;
  return object;
}

/// The memory of a rank at its peak.
struct RankPeak {
  const std::vector<KindBytes>& contents;
  const AllocatorPeak& allocator;
};

Json rank_json(const SimulatedStep& step, RankId id, const RankPeak& peak) {
  const RankMetrics& rank = step.metrics.ranks[id];
  Json object = {{"start_ns", rank.times.start},
                 {"end_ns", rank.times.end},
                 {"span_ns", rank.times.span()},
                 {"busy_ns", rank.times.busy},
                 {"idle_ns", rank.idle()},
                 {"peak_bytes", size_json(step, rank.peak_bytes)},
                 {"peak_at_ns", step.costs.has_sizes ? Json(rank.peak_at) : Json()},
                 {"at_peak", contents_json(step, peak.contents)},
                 {"allocated_bytes", size_json(step, peak.allocator.allocated)},
                 {"reserved_bytes", size_json(step, peak.allocator.reserved)},
                 {"peak_live_activations", rank.peak_live_activations},
                 {"sent_bytes", size_json(step.sent_bytes(id))}};
  if (!step.communicator_bytes.empty())
    object["communicator_bytes"] = size_json(step, step.communicator_bytes[id]);
  return object;
}

Json critical_path_json(const SimulatedStep& step) {
  Json path = Json::array();
  for (const CriticalPiece& item : critical_path(step.timed_run())) {
    path.push_back({{"rank", step.program().rank_of(item.instruction).value()},
                    {"index", step.program().position(item.instruction)},
                    {"action", actions_text(step.program(), item.instruction)},
                    {"start_ns", item.start},
                    {"end_ns", item.end},
                    {"reason", critical_reason_name(item)}});
  }
  return path;
}

void add_notes(const SimulatedStep& step, Json& object) {
  const auto& notes = step.costs.notes;
  if (!notes) return;
  object["workload"] = notes->workload;
  object["not_modelled"] = notes->not_modelled;
  object["known_error"] = notes->known_error;
  if (!notes->calibration.empty()) object["calibration_hash"] = notes->calibration;
}

}  // namespace

Json size_json(const SimulatedStep& step, Bytes size) { return step.costs.has_sizes ? Json(size) : Json(); }

Json size_json(std::optional<Bytes> size) { return size ? Json(*size) : Json(); }

std::string size_text(std::optional<Bytes> size) { return size ? size_text(*size) : "-"; }

std::string size_text(const SimulatedStep& step, Bytes size) {
  return step.costs.has_sizes ? size_text(size) : "-";
}

std::string notes_text(const SimulatedStep& step) {
  const auto& notes = step.costs.notes;
  if (!notes) return "";
  return "Not modelled: " + notes->not_modelled +
         ".\nError of the step in measured runs like it: " + notes->known_error + ".\n";
}

Json phases_json(const PhaseTimes& phases) {
  return {{"reading", phases.reading},       {"generation", phases.generation},
          {"costs", phases.costs},           {"lowering", phases.lowering},
          {"graph", phases.graph},           {"checks", phases.checks},
          {"order", phases.order},           {"compilation", phases.compilation},
          {"simulation", phases.simulation}, {"metrics", phases.metrics},
          {"output", phases.output}};
}

Json evaluation_json(const SimulatedStep& step) {
  const StepTimes& times = step.metrics.times;
  const BubbleBreakdown bubble = step.metrics.bubble();
  Json object = {{"schedule", step.name},
                 {"makespan_ns", times.makespan},
                 {"step_ns", step.step()},
                 {"rank_span_ns", rank_span(times)},
                 {"ideal_ns", ideal_time(times)},
                 {"bubble_fraction", bubble_fraction(times)},
                 {"bubble_fraction_span", bubble_fraction_span(times)},
                 {"bubble_fraction_per_rank", Json::array()},
                 {"bubble_ns", bubble_json(bubble)},
                 {"exposed_communication_ns", bubble.exposed_communication},
                 {"free_of_cost", free_kinds(step.costs.tables.costs, step.program())},
                 {"per_rank", Json::array()},
                 {"critical_path", critical_path_json(step)}};
  const auto contents = peak_contents(step);
  const auto allocators = allocator_peaks(step);
  for (const RankId rank : step.program().pipeline().rank_ids()) {
    object["bubble_fraction_per_rank"].push_back(step.metrics.bubble_fraction(rank));
    object["per_rank"].push_back(rank_json(step, rank, {contents[rank], allocators[rank]}));
  }
  object["peak_bytes"] = size_json(step, step.peak_bytes());
  object["p2p_bytes"] = size_json(step.sent_bytes());
  if (!step.costs.slice_lengths.empty()) object["slice_lengths"] = step.costs.slice_lengths;
  if (step.costs.memory_limit) {
    object["memory_limit_bytes"] = *step.costs.memory_limit;
    object["fits"] = step.fits();
  }
  add_notes(step, object);
  if (step.costs.layout) object["layout"] = layout_text(*step.costs.layout);
  if (step.costs.tokens_per_step) object["recompute"] = as_text(step.costs.recompute);
  if (step.costs.tokens_per_step) {
    object["tokens_per_second"] = tokens_per_second(step.work(), step.step());
    object["model_flops_utilization"] = model_flops_utilization(step.work(), step.step());
  }
  object["simulate_seconds"] = step.simulate_seconds;
  object["program_hash"] = program_hash(step.program());
  object["sizes_hash"] = sizes_hash(step.costs.tables.sizes);
  object["costs_hash"] = costs_hash(step.costs.tables.costs);
  if (step.contended().differ_on(step.capabilities()))
    object["beside_transfers_hash"] = costs_hash(step.costs.tables.beside_transfers);
  object["transport"] = transport_name(step.capabilities());
  object["capabilities_hash"] = capabilities_hash(step.capabilities());
  return object;
}

}  // namespace ppsim::cli
