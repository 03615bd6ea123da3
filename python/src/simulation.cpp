// Simulated runs, one with everything about it or many with their times.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <sstream>

#include "columns/arrays.hpp"
#include "columns/arrow.hpp"
#include "cost_binding.hpp"
#include "pictures.hpp"
#include "ppsim/core/io/text.hpp"
#include "ppsim/core/ir/missing_entries.hpp"
#include "ppsim/core/ir/transports.hpp"
#include "ppsim/planner/costs/rank_memory.hpp"
#include "ppsim/planner/effects/slowed_step.hpp"
#include "ppsim/planner/evaluate.hpp"
#include "ppsim/planner/memory/allocator_peaks.hpp"
#include "ppsim/planner/memory/peak_contents.hpp"
#include "ppsim/planner/report_file.hpp"
#include "ppsim/planner/sweep.hpp"
#include "ppsim/planner/trace_file.hpp"
#include "ppsim/simulator/writers/timeline.hpp"

namespace ppsim::python {
namespace {

// python/ppsim/arrays.py relies on these layouts.
static_assert(sizeof(Span) == 32 && offsetof(Span, end) == 16 && offsetof(Instant, delta) == 8);
static_assert(sizeof(MemoryPoint) == 24 && offsetof(MemoryPoint, bytes) == 16);
static_assert(sizeof(PointTimes) == 40 && offsetof(PointTimes, bubble_fraction) == 24);

/// The functions that python/ppsim/simulation.py calls.
struct SimulationWords {
  std::string name, transport;
  std::optional<int> buffers;
  Sources costs;
  SharedDevices devices = {};
};

/// Shares of its time, which python/ppsim/simulation.py has checked.
SharedDevices devices_of(int ranks, double slowdown, double transfers, double collectives) {
  const auto millionths = [](double share) { return std::llround(share * SharedDevices::kWhole); };
  SharedDevices devices{
      .ranks = ranks, .own_transfers = millionths(transfers), .own_collectives = millionths(collectives)};
  for (const OpInfo& row : kOpTable) {
    if (row.resource == Resource::compute) devices.slowdowns[row.kind] = millionths(slowdown);
  }
  return devices;
}

SimulatedStep evaluated(const Program& program, const SimulationWords& words) {
  CostBinding bound = bound_costs(words.costs, program.pipeline());
  check_tables(words.costs, bound, program);
  SimulatedStep step = value_of(evaluate(words.name, program, std::move(bound),
                                         capabilities_named(words.transport, words.buffers, words.costs)));
  SharedDevices devices = words.devices;
  devices.ranks = std::min(devices.ranks, program.pipeline().ranks());
  value_of(slow_down(step, devices));
  if (const EdgeMemory of_edge = edge_memory(words.transport);
      of_device(words.costs) && of_edge != EdgeMemory())
    step.communicator_bytes = communicator_bytes(step.program(), of_edge);
  return step;
}

/// The costs of a point, which the errors name. Errors: throws CoreError.
CostTable costs_of_point(std::size_t index, const Sources& costs, const Program& program) {
  try {
    CostBinding bound = bound_costs(costs, program.pipeline());
    check_tables(costs, bound, program);
    return std::move(bound.tables.costs);
  } catch (const CoreError& wrong) {
    Error error = wrong.error();
    error.message = "point " + std::to_string(index) + ": " + error.message;
    throw CoreError(std::move(error));
  }
}

std::vector<StepTimes> many(const std::vector<std::shared_ptr<Program>>& programs,
                            const std::vector<Sources>& costs, const std::string& transport, int threads) {
  const TransportCapabilities capabilities =
      capabilities_named(transport, std::nullopt, costs.empty() ? Sources() : costs.front());
  return interruptible([&](const Stopped& stopped) {
    std::vector<SweepPoint> points;
    points.reserve(programs.size());
    for (std::size_t i = 0; i < programs.size(); ++i) {
      const Program& program = *programs[i];
      // Not the pointer that Python counts: threads must not touch that.
      points.push_back({std::shared_ptr<const Program>(std::shared_ptr<void>(), &program),
                        costs_of_point(i, costs[i], program)});
    }
    return value_of(
        simulate_many(points, {.capabilities = capabilities, .threads = threads, .stopped = stopped}));
  });
}

using Column = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// A key of a cost table, and its durations at the points of a sweep.
using NamedColumn = std::tuple<std::string, int, Column>;

OpKind kind_with_cost(const std::string& text) {
  const auto kind = op_kind_from_text(text);
  if (kind && info(*kind).direction != Direction::receive) return *kind;
  throw CoreError(
      {ErrorCode::bad_argument,
       "unknown kind of action",
       {.found = text, .expected = "a kind that a cost table has, such as F, B, I, W or SEND_F"}});
}

/// Figures of all points of a sweep, as bytes of PointTimes.
Bytes1d sweep(const Program& program, const Sources& sources, const std::vector<NamedColumn>& named,
              const std::string& transport, int threads) {
  const SweepOptions options = {.capabilities = capabilities_named(transport, std::nullopt, sources),
                                .threads = threads};
  CostBinding bound = bound_costs(sources, program.pipeline());
  std::vector<CostColumn> columns;
  for (const auto& [kind, stage, durations] : named)
    columns.push_back({{kind_with_cost(kind), stage}, {durations.data(), durations.size()}});
  const CostTable base = bound.tables.costs;
  const CostSweep question = {program, base, columns};
  bound.tables.costs = largest_costs(question);
  check_tables(sources, bound, program);
  auto times = std::make_unique<std::vector<PointTimes>>(interruptible([&](const Stopped& stopped) {
    SweepOptions asked = options;
    asked.stopped = stopped;
    return value_of(simulate_sweep(question, asked));
  }));
  const std::span<const PointTimes> items = *times;
  const nb::capsule owner(times.release(),
                          [](void* p) noexcept { delete static_cast<std::vector<PointTimes>*>(p); });
  return bytes_in<PointTimes>(owner, items);
}

std::string svg_of(const SimulatedStep& step, const std::string& title, int width) {
  check_width(width);
  std::ostringstream out;
  write_svg(out, step.program(), step.trace, {.title = title, .width = width});
  return out.str();
}

std::string text_of(const SimulatedStep& step, int width) {
  check_width(width);
  std::ostringstream out;
  write_text_timeline(out, step.program(), step.trace, {.width = width});
  return out.str();
}

nb::typed<nb::dict, nb::str, nb::int_> bubble_of(const BubbleBreakdown& bubble) {
  return data({{"warmup", bubble.warmup},
               {"steady", bubble.steady},
               {"cooldown", bubble.cooldown},
               {"exposed_communication", bubble.exposed_communication},
               {"imbalance", bubble.imbalance}});
}

/// Bytes by kind of tensor.
nb::object contents_of(const SimulatedStep& step, const std::vector<KindBytes>& contents) {
  if (!step.costs.has_sizes) return nb::none();
  nb::dict result;
  for (const KindBytes& of_kind : contents)
    result[nb::cast(std::string(info(of_kind.kind).name))] = of_kind.bytes;
  return result;
}

Data rank_of(const SimulatedStep& step, RankId id) {
  const RankMetrics& rank = step.metrics.ranks[id];
  const auto size = [&](std::int64_t value) { return step.costs.has_sizes ? nb::cast(value) : nb::none(); };
  return data({{"rank", id.value()},
               {"start_ns", rank.times.start},
               {"end_ns", rank.times.end},
               {"busy_ns", rank.times.busy},
               {"idle_ns", rank.idle()},
               {"peak_bytes", size(rank.peak_bytes)},
               {"peak_at_ns", size(rank.peak_at)},
               {"peak_live_activations", rank.peak_live_activations},
               {"sent_bytes", nb::cast(step.sent_bytes(id))},
               {"communicator_bytes",
                step.communicator_bytes.empty() ? nb::cast(0) : size(step.communicator_bytes[id])}});
}

DataList ranks_of(const SimulatedStep& step) {
  const auto contents = peak_contents(step);
  const auto allocators = allocator_peaks(step);
  DataList result;
  for (const RankId id : step.program().pipeline().rank_ids()) {
    Data rank = rank_of(step, id);
    const auto size = [&](Bytes value) { return step.costs.has_sizes ? nb::cast(value) : nb::none(); };
    rank["at_peak"] = contents_of(step, contents[id]);
    rank["allocated_bytes"] = size(allocators[id].allocated);
    rank["reserved_bytes"] = size(allocators[id].reserved);
    result.append(rank);
  }
  return result;
}

DataList critical_path_of(const SimulatedStep& step) {
  DataList result;
  for (const CriticalPiece& item : critical_path(step.timed_run())) {
    result.append(data({{"rank", step.program().rank_of(item.instruction).value()},
                        {"index", step.program().position(item.instruction)},
                        {"action", actions_text(step.program(), item.instruction)},
                        {"start_ns", item.start},
                        {"end_ns", item.end},
                        {"reason", std::string(critical_reason_name(item))}}));
  }
  return result;
}

/// A row for each instruction, in the order of the trace.
ArrowTable table_of(const SimulatedStep& step) {
  const Program& program = step.program();
  std::vector<std::int32_t> ranks;
  std::vector<std::int32_t> indices;
  std::vector<std::int64_t> starts;
  std::vector<std::int64_t> ends;
  TextColumn queues;
  TextColumn kinds;
  TextColumn instructions;
  for (const InstructionId id : program.ids()) {
    const Action& first = program.actions(id)[0];
    const bool is_pair = program.instruction(id).form == InstructionForm::overlap;
    ranks.push_back(program.rank_of(id).value());
    indices.push_back(program.position(id));
    queues.add(queues_text(program, id));
    kinds.add(info(is_pair ? OpKind::overlap : first.kind).text);
    instructions.add(actions_text(program, id));
    starts.push_back(step.trace.spans[id].start.time);
    ends.push_back(step.trace.spans[id].end.time);
  }
  return ArrowTable(static_cast<std::int64_t>(program.size()), {{"rank", std::move(ranks)},
                                                                {"index", std::move(indices)},
                                                                {"queue", std::move(queues)},
                                                                {"kind", std::move(kinds)},
                                                                {"instruction", std::move(instructions)},
                                                                {"start_ns", std::move(starts)},
                                                                {"end_ns", std::move(ends)}});
}

std::vector<std::string> free_of_cost(const SimulatedStep& step) {
  std::vector<std::string> kinds;
  for (const CostClass& key : missing_costs(step.costs.tables.costs, step.program()))
    kinds.emplace_back(info(key.kind).text);
  return kinds;
}

void write_trace_of(const SimulatedStep& step, const std::string& path) {
  value_of(write_trace_file(path, step.timed_run()));
}

void write_report_of(const std::vector<const SimulatedStep*>& steps, const std::string& path) {
  std::vector<SimulatedStep> copies;
  for (const SimulatedStep* step : steps) copies.push_back(*step);
  value_of(write_report_file(path, copies));
}

using RankState = std::tuple<Nanoseconds, Nanoseconds, Nanoseconds>;
using TimesState = std::pair<Nanoseconds, std::vector<RankState>>;

constexpr std::size_t kShownText = 40;

TimesState state_of(const StepTimes& times) {
  TimesState state{times.makespan, {}};
  for (const RankTimes& rank : times.ranks) state.second.emplace_back(rank.start, rank.end, rank.busy);
  return state;
}

StepTimes times_of(const TimesState& state) {
  StepTimes times{.makespan = state.first};
  for (const auto& [start, end, busy] : state.second) times.ranks.push_back({start, end, busy});
  return times;
}

std::string times_json(const StepTimes& times) {
  const nb::object state = nb::cast(state_of(times));
  return nb::cast<std::string>(nb::module_::import_("json").attr("dumps")(state));
}

StepTimes times_from_json(const GivenText& given) {
  const std::string text = given_text(given, "text");
  TimesState state;
  nb::object data;
  try {
    data = nb::module_::import_("json").attr("loads")(text);
  } catch (const nb::python_error&) {
    data = nb::none();  // the error below names what is no JSON, too
  }
  if (!nb::try_cast(data, state)) {
    throw CoreError({ErrorCode::bad_file,
                     "no times of a step",
                     {.found = text.substr(0, kShownText), .expected = "the text of StepTimes.to_json"}});
  }
  return times_of(state);
}

void bind_times(nb::module_& module) {
  nb::class_<StepTimes>(module, "StepTimes", "Times of one simulated step. Units: nanoseconds.")
      .def_ro("makespan_ns", &StepTimes::makespan, "End of the last instruction.")
      .def_prop_ro("rank_span_ns", &rank_span, "Longest time of a rank from its first start to its last end.")
      .def_prop_ro("ideal_ns", &ideal_time, "Largest compute time of a rank: no order takes less.")
      .def_prop_ro(
          "bubble_fraction", [](const StepTimes& t) { return bubble_fraction(t); },
          "1 - mean compute time of the ranks / makespan.")
      .def_prop_ro(
          "bubble_fraction_span", [](const StepTimes& t) { return bubble_fraction_span(t); },
          "1 - compute time / span of the rank with the longest span.")
      .def_prop_ro(
          "ranks", [](const StepTimes& t) { return state_of(t).second; },
          "(start_ns, end_ns, busy_ns) of the computation of each rank.")
      .def("to_json", &times_json, "The same as text.")
      .def_static("from_json", &times_from_json, "text"_a.none(),
                  "The inverse of to_json. Raises ValueError.")
      .def("__getstate__", &state_of)
      .def("__setstate__", [](StepTimes& t, const TimesState& state) { new (&t) StepTimes(times_of(state)); })
      .def(
          "__eq__", [](const StepTimes& a, const StepTimes& b) { return a == b; }, nb::is_operator(),
          nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](const StepTimes& t) { return nb::hash(nb::cast(t.makespan)); })
      .def("__repr__", [](const StepTimes& t) {
        return "<ppsim.StepTimes makespan_ns=" + std::to_string(t.makespan) + ">";
      });
}

}  // namespace

void bind_simulation(nb::module_& module) {
  const auto free = nb::call_guard<nb::gil_scoped_release>();
  bind_times(module);
  nb::class_<SimulatedStep>(module, "SimulatedStep", "A simulated step; ppsim.Run is what a user sees of it.")
      .def_prop_ro("program", &SimulatedStep::program, nb::rv_policy::reference_internal)
      .def_prop_ro("times", [](const SimulatedStep& s) { return s.metrics.times; })
      .def_prop_ro("bubble_ns", [](const SimulatedStep& s) { return bubble_of(s.metrics.bubble()); })
      .def("ranks", &ranks_of)
      .def("critical_path", &critical_path_of)
      .def("free_of_cost", &free_of_cost)
      .def_prop_ro("memory_limit_bytes", [](const SimulatedStep& s) { return s.costs.memory_limit; })
      .def_prop_ro("has_sizes", [](const SimulatedStep& s) { return s.costs.has_sizes; })
      .def_prop_ro("step_ns", &SimulatedStep::step)
      .def_prop_ro("fits", &SimulatedStep::fits)
      .def_prop_ro("tokens_per_second",
                   [](const SimulatedStep& s) -> std::optional<double> {
                     if (!s.costs.tokens_per_step) return std::nullopt;
                     return tokens_per_second(s.work(), s.step());
                   })
      .def_prop_ro("model_flops_utilization",
                   [](const SimulatedStep& s) -> std::optional<double> {
                     if (!s.costs.tokens_per_step) return std::nullopt;
                     return model_flops_utilization(s.work(), s.step());
                   })
      .def("spans",
           [](nb::handle self) {
             return bytes_in<Span>(self, nb::cast<const SimulatedStep&>(self).trace.spans.items());
           })
      .def(
          "memory",
          [](nb::handle self, int rank) {
            return bytes_in<MemoryPoint>(
                self, nb::cast<const SimulatedStep&>(self).metrics.memory[RankId(rank)].points);
          },
          "rank"_a)
      .def("table", &table_of)
      .def("svg", &svg_of, "title"_a, "width"_a, free)
      .def("text", &text_of, "width"_a, free)
      .def("write_trace", &write_trace_of, "path"_a, free);
  nb::class_<SimulationWords>(module, "SimulationWords", "What ppsim.simulate asks.")
      .def(nb::init<>())
      .def_rw("name", &SimulationWords::name)
      .def_rw("transport", &SimulationWords::transport)
      .def_rw("buffers", &SimulationWords::buffers, nb::arg().none())
      .def(
          "slow_down",
          [](SimulationWords& words, int ranks, double slowdown, double transfers, double collectives) {
            words.devices = devices_of(ranks, slowdown, transfers, collectives);
          },
          "ranks"_a, "slowdown"_a, "transfers"_a, "collectives"_a)
      .def_rw("costs", &SimulationWords::costs);
  module.def("evaluate", &evaluated, "program"_a, "words"_a, free);
  module.def("simulate_many", &many, "programs"_a, "costs"_a, "transport"_a, "threads"_a);
  module.def("sweep", &sweep, "program"_a, "costs"_a, "columns"_a, "transport"_a, "threads"_a);
  module.def("write_report", &write_report_of, "steps"_a, "path"_a, free);
}

}  // namespace ppsim::python
