// verify, with the memory that devices need beside what is alive at once, and certificates.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "cost_binding.hpp"
#include "counterexample.hpp"
#include "ppsim/core/certificate/certificate.hpp"
#include "ppsim/core/io/json.hpp"
#include "ppsim/core/ir/transports.hpp"
#include "ppsim/core/text/nearest.hpp"
#include "ppsim/planner/costs/rank_memory.hpp"
#include "ppsim/planner/targets.hpp"
#include "ppsim/verifier/verify.hpp"
#include "verification.hpp"

namespace ppsim::python {
namespace {

std::vector<Property> properties_named(const std::vector<std::string>& names) {
  std::vector<Property> result;
  for (const std::string& name : names) {
    const auto property = property_from_name(name);
    if (!property) throw CoreError(unknown_name("unknown property", name, names_in(property_registry()), ""));
    result.push_back(*property);
  }
  return result;
}

/// A report and what devices need beside it.
struct Outcome {
  VerifyReport report;
  std::optional<RankMemory> devices;
  IdVector<RankId, Bytes> communicators;
  std::optional<std::string> certificate;
};

void add_devices(const AnalyzedProgram& analyzed, const VerifyQuestion& question,
                 const VerifyOptions& options, Outcome& outcome) {
  const Program& program = analyzed.program();
  if (outcome.report.memory.size() != static_cast<std::size_t>(program.pipeline().ranks())) return;
  RankMemoryOptions limits;
  if (!of_device(question.costs)) limits.alignment = 1;
  limits.limits.stopped = options.stopped;
  if (const EdgeMemory of_edge = edge_memory(question.transport);
      of_device(question.costs) && of_edge != EdgeMemory())
    outcome.communicators = communicator_bytes(program, of_edge);
  outcome.devices = rank_memory(analyzed, *options.sizes, limits);
}

nb::dict result_data(const Program& program, const PropertyResult& result) {
  nb::dict item = verdict_data(result.property, result.verdict);
  item["method"] = result.method;
  item["seconds"] = result.seconds;
  item["notes"] = result.notes;
  if (const auto* refuted = std::get_if<Refuted>(&result.verdict)) {
    item["counterexample"] = counterexample_data(program, refuted->counterexample);
    item["lines"] = explain(program, refuted->counterexample);
  }
  return item;
}

nb::dict memory_data(const Outcome& outcome, const WorstCase& worst) {
  nb::dict item;
  item["rank"] = worst.rank.value();
  item["bytes"] = worst.bytes;
  if (outcome.devices && outcome.devices->pool_bytes)
    item["pool_bytes"] = (*outcome.devices->pool_bytes)[worst.rank];
  if (!outcome.communicators.empty()) item["communicator_bytes"] = outcome.communicators[worst.rank];
  return item;
}

Data data_of(const Program& program, const VerifyOptions& options, const Outcome& outcome) {
  nb::list properties;
  for (const PropertyResult& result : outcome.report.results) properties.append(result_data(program, result));
  nb::object makespan = nb::none();
  if (const auto range = outcome.report.makespan) makespan = nb::make_tuple(range->least, range->most);
  nb::list memory;
  for (const WorstCase& worst : outcome.report.memory) memory.append(memory_data(outcome, worst));
  return data({{"properties", properties},
               {"memory", memory},
               {"transport", transport_text(options.capabilities)},
               {"certificate", outcome.certificate},
               {"memory_limit_bytes", options.memory_limit},
               {"makespan_ns", makespan}});
}

Data verified(const Program& program, const VerifyQuestion& question) {
  const VerifyOptions options = options_of(program, question);
  const Outcome outcome = interruptible([&](const Stopped& stopped) {
    VerifyOptions asked = options;
    asked.stopped = stopped;
    const AnalyzedProgram analyzed(program, asked.capabilities);
    Outcome answer{.report = verify(analyzed, asked)};
    add_devices(analyzed, question, asked, answer);
    if (const auto proof = make_certificate(analyzed, asked, answer.report))
      answer.certificate = to_json(*proof);
    return answer;
  });
  return data_of(program, options, outcome);
}

void check_proof(const std::string& certificate, const Program& program, const Sources& costs) {
  const Certificate proof = value_of(certificate_from_json(certificate, "<certificate>"));
  if (costs.empty()) return value_of(check_certificate(proof, program, nullptr));
  const SizeTable sizes = bound_costs(costs, program.pipeline()).tables.sizes;
  value_of(check_certificate(proof, program, &sizes));
}

}  // namespace

nb::dict verdict_data(Property property, const Verdict& verdict) {
  const auto text = [](std::string_view view) { return nb::str(view.data(), view.size()); };
  nb::dict item;
  item["name"] = text(property_name(property));
  item["verdict"] = text(verdict_name(verdict));
  if (const auto* unknown = std::get_if<Unknown>(&verdict)) item["reason"] = unknown->reason;
  return item;
}

VerifyOptions options_of(const Program& program, const VerifyQuestion& question) {
  VerifyOptions options;
  options.properties = properties_named(question.properties);
  options.capabilities = question.target
                             ? target_capabilities()
                             : capabilities_named(question.transport, question.buffers, question.costs);
  options.memory_limit = question.memory_limit;
  if (!(question.timeout_s > 0))
    throw CoreError({ErrorCode::bad_argument,
                     "timeout_s out of range",
                     {.found = std::to_string(question.timeout_s), .expected = "seconds, more than 0"}});
  options.timeout_s = question.timeout_s;
  options.cross_check = question.cross_check;
  const auto asks = [&](Property property) {
    return std::ranges::find(options.properties, property) != options.properties.end();
  };
  if (!question.costs.empty()) {
    CostBinding bound = bound_costs(question.costs, program.pipeline());
    check_tables(question.costs, bound, program);
    if (asks(Property::makespan)) options.costs = CostBounds{bound.tables.costs, bound.tables.costs};
    if (bound.has_sizes || !bound.tables.sizes.entries().empty())
      options.sizes = std::move(bound.tables.sizes);
    if (!options.memory_limit && (options.properties.empty() || asks(Property::memory)))
      options.memory_limit = bound.memory_limit;
  }
  if (asks(Property::makespan) && question.costs.empty()) {
    throw CoreError({ErrorCode::bad_argument,
                     "makespan needs costs",
                     {.found = "no costs", .expected = "costs= or unit="}});
  }
  if ((options.memory_limit || asks(Property::memory)) && !options.sizes) {
    throw CoreError({ErrorCode::bad_argument,
                     "memory needs sizes",
                     {.found = question.costs.empty() ? "no costs" : "costs without sizes",
                      .expected = "costs of a model, of a table with sizes, or Costs.unit(A=...)"}});
  }
  return options;
}

void bind_verification(nb::module_& module) {
  nb::class_<VerifyQuestion>(module, "VerifyQuestion", "What ppsim.verify asks.")
      .def(nb::init<>())
      .def_rw("properties", &VerifyQuestion::properties)
      .def_rw("transport", &VerifyQuestion::transport)
      .def_rw("target", &VerifyQuestion::target, nb::arg().none())
      .def_rw("buffers", &VerifyQuestion::buffers, nb::arg().none())
      .def_rw("costs", &VerifyQuestion::costs)
      .def_rw("memory_limit", &VerifyQuestion::memory_limit, nb::arg().none())
      .def_rw("timeout_s", &VerifyQuestion::timeout_s)
      .def_rw("cross_check", &VerifyQuestion::cross_check);
  module.def("verify", &verified, "program"_a, "question"_a);
  module.def("check_certificate", &check_proof, "certificate"_a, "program"_a, "costs"_a,
             nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace ppsim::python
