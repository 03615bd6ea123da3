// The best plan for a model, a batch and a cluster.

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "cost_binding.hpp"
#include "ppsim/core/text/as_text.hpp"
#include "ppsim/planner/costs/workload_words.hpp"
#include "ppsim/planner/plan.hpp"
#include "ppsim/workload/validated.hpp"

namespace ppsim::python {
namespace {

/// The functions that python/ppsim/planning.py calls.
struct PlanWords {
  std::string model, cluster, stack, rank_order, objective, transport, min_spare;
  std::vector<int> nodes;
  int global_batch_size = 1;
  std::int64_t sequence_length = 0;
  std::map<std::string, std::vector<std::string>> fixed;
  int top = 10;
  double front = 1.02;
  bool pipeline_only = false;
};

PlanRequest request_of(const PlanWords& words) {
  Parallelism parallelism;
  parallelism.global_batch_size = words.global_batch_size;
  parallelism.sequence = words.sequence_length;
  PlanRequest request;
  request.work = value_of(workload_to_search({.model = words.model,
                                              .cluster = words.cluster,
                                              .nodes = words.nodes.front(),
                                              .parallelism = parallelism,
                                              .rank_order = words.rank_order,
                                              .stack = words.stack,
                                              .whole_step = !words.pipeline_only}));
  request.nodes = words.nodes;
  request.fixed = words.fixed;
  request.top = words.top;
  request.front = words.front;
  request.objective = value_of(plan_objective(words.objective));
  request.transport = words.transport;
  if (!words.min_spare.empty()) request.min_spare_bytes = value_of(parse_size(words.min_spare));
  return request;
}

nb::dict choice_data(const PlanChoice& choice) {
  const Parallelism& parallelism = choice.parallelism;
  return data({{"schedule", choice.schedule},
               {"chunks", choice.chunks},
               {"nodes", choice.nodes},
               {"tp", parallelism.tensor},
               {"pp", parallelism.pipeline},
               {"dp", parallelism.data},
               {"cp", parallelism.context},
               {"ep", parallelism.expert},
               {"microbatch_size", parallelism.microbatch_size},
               {"microbatches", parallelism.microbatches()},
               {"dtype", std::string(data_type_name(parallelism.dtype))},
               {"fsdp", parallelism.sharded_parameters},
               {"recompute", choice.recompute_text()}});
}

nb::dict row_data(const PlanRow& row) {
  nb::dict data = choice_data(row.choice);
  data["name"] = as_text(row.choice);
  data["layout"] = layout_text(row.layout);
  data["step_ns"] = row.step;
  data["layers_ns"] = row.parts.layers;
  data["bubble_ns"] = row.parts.bubble;
  data["communication_ns"] = row.parts.communication;
  data["step_end_ns"] = row.parts.step_end;
  data["peak_bytes"] = row.peak_bytes;
  data["memory_limit_bytes"] = row.memory_limit;
  data["tokens_per_second"] = row.tokens_per_second;
  data["model_flops_utilization"] = row.model_flops_utilization;
  return data;
}

nb::list rows_data(const std::vector<PlanRow>& rows) {
  nb::list data;
  for (const PlanRow& row : rows) {
    nb::dict item = row_data(row);
    item["why_slower"] = &row == rows.data() ? std::string() : planner::why_slower(rows.front(), row);
    data.append(item);
  }
  return data;
}

nb::dict verdicts_of(const VerifyReport& proof) {
  nb::dict verdicts;
  for (const PropertyResult& result : proof.results)
    verdicts[nb::cast(std::string(property_name(result.property)))] =
        std::string(verdict_name(result.verdict));
  return verdicts;
}

Data planned(const PlanWords& words) {
  PlanRequest request = request_of(words);
  VerifyReport proof;
  const Plan found = interruptible([&](const Stopped& stopped) {
    request.stopped = stopped;
    Plan plan = value_of(planner::plan(request));
    if (!plan.best.empty() && plan.complete)
      proof = value_of(planner::verify_plan(request, plan.best.front().choice));
    return plan;
  });
  nb::dict data;
  data["plans"] = rows_data(found.best);
  data["pareto"] = rows_data(found.front);
  if (found.tightest) data["tightest"] = row_data(*found.tightest);
  if (found.fastest_misfit) data["fastest_misfit"] = row_data(*found.fastest_misfit);
  data["verified"] = verdicts_of(proof);
  data["unused"] = found.unused;
  data["bounded"] = found.counts.bounded;
  data["simulated"] = found.counts.simulated;
  data["not_modelled"] = workload::not_modelled(request.work);
  data["known_error"] = workload::known_error(request.work);
  return data;
}

}  // namespace

void bind_plan(nb::module_& module) {
  nb::class_<PlanWords>(module, "PlanWords", "What ppsim.plan asks.")
      .def(nb::init<>())
      .def_rw("model", &PlanWords::model)
      .def_rw("cluster", &PlanWords::cluster)
      .def_rw("stack", &PlanWords::stack)
      .def_rw("rank_order", &PlanWords::rank_order)
      .def_rw("objective", &PlanWords::objective)
      .def_rw("transport", &PlanWords::transport)
      .def_rw("min_spare", &PlanWords::min_spare)
      .def_rw("nodes", &PlanWords::nodes)
      .def_rw("global_batch_size", &PlanWords::global_batch_size)
      .def_rw("sequence_length", &PlanWords::sequence_length)
      .def_rw("fixed", &PlanWords::fixed)
      .def_rw("top", &PlanWords::top)
      .def_rw("front", &PlanWords::front)
      .def_rw("pipeline_only", &PlanWords::pipeline_only);
  module.def("plan", &planned, "words"_a);
}

}  // namespace ppsim::python
