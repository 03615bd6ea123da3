// Costs: units, tables, and a model on a cluster.

#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <map>

#include "cost_binding.hpp"
#include "ppsim/core/ir/inference.hpp"
#include "ppsim/core/ir/transports.hpp"
#include "ppsim/core/text/as_text.hpp"
#include "ppsim/planner/costs/table_coverage.hpp"
#include "ppsim/planner/costs/workload_words.hpp"
#include "ppsim/planner/kineto.hpp"

namespace ppsim::python {
namespace {

Source units(const std::string& text, const std::string& tokens) {
  UnitSource source = value_of(parse_unit_costs(text));
  if (!tokens.empty()) source.tokens = value_of(parse_token_costs(tokens));
  return {std::move(source)};
}

int* count_named(WorkloadWords& words, const std::string& name) {
  struct Field {
    const char* name;
    int Parallelism::*member;
  };
  static constexpr std::array<Field, 7> kFields = {{{"tp", &Parallelism::tensor},
                                                    {"pp", &Parallelism::pipeline},
                                                    {"dp", &Parallelism::data},
                                                    {"cp", &Parallelism::context},
                                                    {"ep", &Parallelism::expert},
                                                    {"microbatch_size", &Parallelism::microbatch_size},
                                                    {"global_batch_size", &Parallelism::global_batch_size}}};
  if (name == "nodes") return &words.nodes;
  for (const Field& field : kFields) {
    if (name == field.name) return &(words.parallelism.*field.member);
  }
  return nullptr;
}

Source model(const std::map<std::string, std::string>& texts,
             const std::map<std::string, std::int64_t>& counts) {
  WorkloadWords words{.model = texts.at("model"),
                      .cluster = texts.at("cluster"),
                      .dtype = texts.at("dtype"),
                      .rank_order = texts.at("rank_order"),
                      .layout = texts.at("layout"),
                      .stack = texts.at("stack"),
                      .calibration = texts.contains("calibration") ? texts.at("calibration") : ""};
  for (const auto& [name, count] : counts) {
    if (name == "sequence_length") {
      words.parallelism.sequence = count;
    } else if (int* field = count_named(words, name)) {
      *field = static_cast<int>(std::clamp<std::int64_t>(count, -(1 << 30), 1 << 30));
    }
  }
  const RecomputeWords recompute = value_of(recompute_from_words(texts.at("recompute")));
  words.parallelism.recompute = recompute.stages;
  words.checkpoints = recompute.checkpoints;
  words.parallelism.sharded_parameters = texts.contains("fsdp");
  return {value_of(workload_from_words(words))};
}

/// The entries of a table as one JSON text: what a pickled table holds.
std::string table_json(const Source& source) {
  const auto* tables = std::get_if<Tables>(&source.value);
  return tables == nullptr ? std::string() : to_json(*tables);
}

/// Cells of the computation in a trace of PyTorch, and how long each took.
std::vector<std::pair<std::string, Nanoseconds>> kineto_durations(const std::string& text,
                                                                  const std::string& file) {
  std::vector<std::pair<std::string, Nanoseconds>> durations;
  for (const KinetoRange& range : value_of(read_kineto(text, file)).ranges)
    durations.emplace_back(range.cell, range.end - range.start);
  return durations;
}

}  // namespace

CostBinding bound_costs(const Sources& sources, const Pipeline& pipeline) {
  std::vector<CostSource> values;
  for (const Source& source : sources) values.push_back(source.value);
  return value_of(bind_cost_sources(values, pipeline));
}

std::optional<StageRecompute> recompute_of(const Sources& sources) {
  std::optional<StageRecompute> recompute;
  for (const Source& source : sources) {
    if (const auto* work = std::get_if<Workload>(&source.value)) recompute = work->parallelism.recompute;
  }
  return recompute;
}

void check_tables(const Sources& sources, const CostBinding& bound, const Program& program) {
  const auto recompute = recompute_of(sources);
  if (recompute && recompute->any(Recompute::full) && !program.has(OpKind::recompute) && trains(program)) {
    throw CoreError({ErrorCode::bad_argument,
                     "the costs are those of recomputation, and the Program has none",
                     {.found = "recompute=" + as_text(*recompute),
                      .expected = "a Schedule, or a Program that was lowered with it"}});
  }
  const auto is_table = [](const Source& source) { return std::holds_alternative<Tables>(source.value); };
  if (std::ranges::none_of(sources, is_table)) return;
  value_of(check_costs(bound.tables.costs, program));
  value_of(check_sizes(bound.tables.sizes, program));
}

bool of_device(const Sources& sources) {
  return std::ranges::any_of(
      sources, [](const Source& source) { return !std::holds_alternative<UnitSource>(source.value); });
}

TransportCapabilities capabilities_named(const std::string& name, std::optional<int> buffers,
                                         const Sources& sources) {
  const bool launches = std::ranges::any_of(sources, [](const Source& source) {
    const auto* work = std::get_if<Workload>(&source.value);
    return work != nullptr &&
           (work->parallelism.tensor > 1 || work->parallelism.context > 1 || work->parallelism.expert > 1);
  });
  TransportCapabilities capabilities = value_of(transport(name, launches));
  if (buffers && *buffers < 1) {
    throw CoreError({ErrorCode::bad_argument,
                     "buffers out of range",
                     {.found = std::to_string(*buffers), .expected = "1 or more, or None for rendezvous"}});
  }
  capabilities.credits = buffers;
  return capabilities;
}

void bind_costs(nb::module_& module) {
  nb::class_<Source>(module, "Source", "Where costs come from.")
      .def_static("units", &units, "text"_a, "tokens"_a)
      .def_static("model", &model, "texts"_a, "counts"_a)
      .def_static(
          "table",
          [](const std::string& text, const std::string& file) {
            return Source{value_of(tables_from_json(text, file))};
          },
          "text"_a, "file"_a)
      .def("table_json", &table_json);
  module.def(
      "parse_size", [](const std::string& text) { return value_of(parse_size(text)); }, "text"_a);
  module.def("kineto_ranges", &kineto_durations, "text"_a, "file"_a,
             nb::call_guard<nb::gil_scoped_release>());
  module.def(
      "bound_json",
      [](const Sources& sources, const Schedule& schedule) {
        return to_json(bound_costs(sources, schedule.pipeline()).tables);
      },
      "sources"_a, "schedule"_a);
}

}  // namespace ppsim::python
