// The registry of schedules, and schedules made row by row.

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "cost_binding.hpp"
#include "ppsim/core/io/text.hpp"
#include "ppsim/planner/ir_source.hpp"
#include "ppsim/schedules/registry.hpp"

namespace ppsim::python {
namespace {

/// The functions that python/ppsim/registry.py calls.
struct GenerateWords {
  int ranks = 1, microbatches = 1;
  std::optional<int> chunks, slices;
  std::map<std::string, std::string> settings;
  Sources costs;
};

Schedule generated(const std::string& name, const GenerateWords& words) {
  ScheduleParameters parameters{.ranks = words.ranks,
                                .microbatches = words.microbatches,
                                .chunks = words.chunks,
                                .slices = words.slices.value_or(kUsualSlices),
                                .settings = words.settings};
  const ScheduleInfo& info = *value_of(find_schedule(name));
  std::optional<CostSource> first;
  if (!words.costs.empty()) first = words.costs.front().value;
  auto schedule = std::get<Schedule>(value_of(ir_from_name(name, parameters, first)));
  if (words.costs.size() < 2 || !info.uses_costs) return schedule;
  parameters.slices = schedule.pipeline().slices();
  parameters.costs = bound_costs(words.costs, schedule.pipeline()).tables.costs;
  return value_of(generate(name, parameters));
}

template <class Id>
std::vector<Id> ids_of(const std::vector<int>& values) {
  std::vector<Id> ids;
  for (const int value : values) ids.emplace_back(value);
  return ids;
}

/// The shape of a pipeline as ScheduleBuilder of python/ppsim holds it; empty members have their defaults.
struct Shape {
  int ranks = 1, stages = 1, microbatches = 1, slices = 1;
  std::vector<int> placement;
  std::vector<std::pair<int, int>> edges, side_edges;
  std::vector<std::vector<int>> routes;
  std::vector<int> route;
  std::vector<std::vector<int>> blocks;
};

Pipeline pipeline_of_shape(const Shape& shape) {
  PipelineSpec spec{.ranks = shape.ranks,
                    .stages = shape.stages,
                    .microbatches = shape.microbatches,
                    .slices = shape.slices};
  spec.placement = IdVector<StageId, RankId>(ids_of<RankId>(shape.placement));
  for (const auto& [from, to] : shape.edges) spec.edges.push_back({StageId(from), StageId(to)});
  for (const auto& [from, to] : shape.side_edges) spec.side_edges.push_back({StageId(from), StageId(to)});
  for (const auto& route : shape.routes) spec.routes.push_back(ids_of<StageId>(route));
  spec.route = IdVector<MicrobatchId, RouteId>(ids_of<RouteId>(shape.route));
  for (const auto& block : shape.blocks) spec.blocks.push_back({ids_of<StageId>(block)});
  return value_of(Pipeline::make(std::move(spec)));
}

Schedule from_rows(const std::string& name, const Shape& shape,
                   const std::vector<std::vector<std::string>>& rows) {
  const Pipeline pipeline = pipeline_of_shape(shape);
  if (rows.size() != static_cast<std::size_t>(pipeline.ranks())) {
    throw CoreError(
        {ErrorCode::bad_argument,
         "a schedule needs a row for each rank",
         {.found = std::to_string(rows.size()) + " rows", .expected = std::to_string(pipeline.ranks())}});
  }
  ScheduleBuilder builder(name, pipeline);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t i = 0; i < rows[r].size(); ++i) {
      auto step = parse_cell(pipeline, rows[r][i]);
      if (!step) {
        step.error().place.row = static_cast<int>(r) + 1;
        step.error().place.column = static_cast<int>(i) + 1;
      }
      builder.add(RankId(static_cast<int>(r)), value_of(std::move(step)));
    }
  }
  return value_of(builder.build());
}

Data info_of(const ScheduleInfo& info) {
  const auto text = [](std::string_view view) { return nb::str(view.data(), view.size()); };
  nb::dict settings;
  for (const SettingInfo& setting : info.settings) settings[text(setting.name)] = text(setting.meaning);
  return data({{"name", text(info.name)},
               {"summary", text(info.summary)},
               {"paper", text(info.paper)},
               {"placement", text(info.placement)},
               {"constraints", text(info.constraints)},
               {"settings", settings}});
}

}  // namespace

void bind_schedules(nb::module_& module) {
  const auto free = nb::call_guard<nb::gil_scoped_release>();
  nb::class_<Shape>(module, "Shape", "Of the pipeline that a ScheduleBuilder is for.")
      .def(nb::init<>())
      .def_rw("ranks", &Shape::ranks)
      .def_rw("stages", &Shape::stages)
      .def_rw("microbatches", &Shape::microbatches)
      .def_rw("slices", &Shape::slices)
      .def_rw("placement", &Shape::placement)
      .def_rw("edges", &Shape::edges)
      .def_rw("side_edges", &Shape::side_edges)
      .def_rw("routes", &Shape::routes)
      .def_rw("route", &Shape::route)
      .def_rw("blocks", &Shape::blocks);
  nb::class_<GenerateWords>(module, "GenerateWords", "What ppsim.generate asks.")
      .def(nb::init<>())
      .def_rw("ranks", &GenerateWords::ranks)
      .def_rw("microbatches", &GenerateWords::microbatches)
      .def_rw("chunks", &GenerateWords::chunks, nb::arg().none())
      .def_rw("slices", &GenerateWords::slices, nb::arg().none())
      .def_rw("settings", &GenerateWords::settings)
      .def_rw("costs", &GenerateWords::costs);
  module.def("generate", &generated, "name"_a, "words"_a, free);
  module.def("from_rows", &from_rows, "name"_a, "shape"_a, "rows"_a, free);
  module.def("schedule_infos", [] {
    DataList infos;
    for (const ScheduleInfo& info : registered_schedules()) infos.append(info_of(info));
    return infos;
  });
}

}  // namespace ppsim::python
