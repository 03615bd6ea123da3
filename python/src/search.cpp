// Repair and synthesis, which Z3 searches for.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "ppsim/core/io/json.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/planner/synthesis.hpp"
#include "ppsim/schedules/registry.hpp"
#include "ppsim/verifier/repair/repair.hpp"
#include "ppsim/verifier/synthesis/synthesis.hpp"
#include "verification.hpp"

namespace ppsim::python {
namespace {

std::vector<ChangeKind> kinds_named(const std::vector<std::string>& names) {
  std::vector<ChangeKind> kinds;
  for (const std::string& name : names) {
    if (name == "move") {
      kinds.push_back(ChangeKind::move);
    } else if (name == "group") {
      kinds.push_back(ChangeKind::group);
    } else if (name == "split") {
      kinds.push_back(ChangeKind::split);
    } else {
      throw CoreError({ErrorCode::bad_argument,
                       "unknown kind of change",
                       {.found = name, .expected = "move, group or split"}});
    }
  }
  return kinds;
}

Data repaired(const Program& program, const VerifyQuestion& question, const std::vector<std::string>& kinds) {
  const VerifyOptions asked = options_of(program, question);
  RepairOptions options{.kinds = kinds_named(kinds)};
  const RepairAnswer answer = interruptible([&](const Stopped& stopped) {
    options.verify = asked;
    options.verify.stopped = stopped;
    return repair(program, options);
  });
  nb::dict data;
  nb::list changes;
  if (const auto* found = std::get_if<Repaired>(&answer)) {
    for (const Change& change : found->changes) changes.append(to_string(change));
    data["program"] = found->program;
    nb::list still_refuted;
    for (const Property property : found->still_refuted())
      still_refuted.append(std::string(property_name(property)));
    data["still_refuted"] = still_refuted;
  } else if (const auto* none = std::get_if<NoRepair>(&answer)) {
    data["why"] = none->why;
  } else {
    data["unknown"] = std::get<Unknown>(answer).reason;
  }
  data["changes"] = changes;
  return data;
}

/// The functions that python/ppsim/search.py calls.
struct SynthesisWords {
  int ranks = 1, microbatches = 1;
  std::string placement;
  std::optional<int> chunks;
  std::optional<int> activation_limit;
  std::string memory_limit;
  std::optional<std::int64_t> steps;
  std::uint64_t seed = 1;
  bool fused = false;
  bool span = false;
  double timeout_s = 60;
  Sources costs;
};

SynthesisRequest request_of(const SynthesisWords& words) {
  return {.ranks = words.ranks,
          .microbatches = words.microbatches,
          .backward = words.fused ? BackwardForm::fused : BackwardForm::split,
          .objective = words.span ? Objective::span : Objective::makespan,
          .timeout_s = words.timeout_s,
          .max_steps = words.steps,
          .seed = words.seed};
}

Expected<void> bind(const SynthesisWords& words, SynthesisRequest& request) {
  SynthesisRequest shortest = request;
  shortest.microbatches = 1;
  CostBinding bound = bound_costs(words.costs, value_of(synthesis_pipeline(request)));
  LoweringOptions lowering;
  lowering.recompute = recompute_of(words.costs).value_or(StageRecompute());
  check_tables(words.costs, bound, value_of(lower(value_of(any_schedule(shortest)), lowering)));
  return bind_request(std::move(bound), {words.activation_limit, words.memory_limit}, request);
}

Data synthesized(const SynthesisWords& words) {
  SynthesisRequest request = request_of(words);
  bool in_bytes = false;
  const SynthesisAnswer answer = interruptible([&](const Stopped& stopped) {
    request.stopped = stopped;
    return value_of(synthesize_placed({words.placement, words.chunks, words.ranks}, request,
                                      [&](SynthesisRequest& placed) -> Expected<void> {
                                        PPSIM_RETURN_IF_ERROR(bind(words, placed));
                                        in_bytes = placed.bytes.has_value();
                                        return {};
                                      }));
  });
  if (const auto* none = std::get_if<NoSchedule>(&answer)) return data({{"why", none->reason}});
  const auto& found = std::get<Synthesized>(answer);
  return data(
      {{"schedule", found.schedule},
       {"program", found.program},
       {"value_ns", found.value},
       {"lower_bound_ns", found.lower_bound},
       {"placements", found.placements},
       {"method", found.method},
       {"bound_method", found.bound_method},
       {"open", found.open},
       {"worst_case_bytes",
        in_bytes && found.worst_bytes > 0 ? std::optional(found.worst_bytes) : std::nullopt},
       {"peak_live_activations", peak_live_microbatches(found.schedule)},
       {"certificate", found.certificate ? std::optional(to_json(*found.certificate)) : std::nullopt}});
}

}  // namespace

void bind_search(nb::module_& module) {
  nb::class_<SynthesisWords>(module, "SynthesisWords", "What ppsim.synthesize asks.")
      .def(nb::init<>())
      .def_rw("ranks", &SynthesisWords::ranks)
      .def_rw("microbatches", &SynthesisWords::microbatches)
      .def_rw("placement", &SynthesisWords::placement)
      .def_rw("chunks", &SynthesisWords::chunks)
      .def_rw("activation_limit", &SynthesisWords::activation_limit)
      .def_rw("memory_limit", &SynthesisWords::memory_limit)
      .def_rw("steps", &SynthesisWords::steps)
      .def_rw("seed", &SynthesisWords::seed)
      .def_rw("fused", &SynthesisWords::fused)
      .def_rw("span", &SynthesisWords::span)
      .def_rw("timeout_s", &SynthesisWords::timeout_s)
      .def_rw("costs", &SynthesisWords::costs);
  module.def("repair", &repaired, "program"_a, "question"_a, "kinds"_a);
  module.def("synthesize", &synthesized, "words"_a);
}

}  // namespace ppsim::python
