// Schedules and Programs.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstddef>

#include "columns/arrays.hpp"
#include "cost_binding.hpp"
#include "pictures.hpp"
#include "ppsim/core/io/json.hpp"
#include "ppsim/core/io/text.hpp"
#include "ppsim/core/ir/concatenated.hpp"
#include "ppsim/core/ir/hash.hpp"
#include "ppsim/core/ir/padding.hpp"
#include "ppsim/core/ir/tied_ends.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/core/text/as_text.hpp"
#include "ppsim/planner/files.hpp"
#include "ppsim/planner/ir_source.hpp"
#include "ppsim/planner/targets.hpp"

namespace ppsim::python {
namespace {

// python/ppsim/arrays.py relies on these layouts.
static_assert(sizeof(Action) == 16 && offsetof(Action, microbatch) == 4 && offsetof(Action, peer) == 8 &&
              offsetof(Action, slice) == 12 && offsetof(Action, kind) == 14);
static_assert(sizeof(Instruction) == 16 && offsetof(Instruction, first_after) == 4 &&
              offsetof(Instruction, action_count) == 8 && offsetof(Instruction, after_count) == 10 &&
              offsetof(Instruction, form) == 12 && offsetof(Instruction, blocking) == 13);

using Rows = std::vector<std::vector<std::string>>;

Rows rows_of(const Schedule& schedule) {
  Rows rows;
  for (const RankId rank : schedule.pipeline().rank_ids()) {
    auto& row = rows.emplace_back();
    for (const Cell& cell : schedule.row(rank)) row.push_back(cell_text(schedule.pipeline(), cell));
  }
  return rows;
}

Rows rows_of(const Program& program) {
  Rows rows;
  for (const RankId rank : program.pipeline().rank_ids()) {
    auto& row = rows.emplace_back();
    for (const InstructionId id : program.ids_of(rank)) row.push_back(instruction_text(program, id));
  }
  return rows;
}

template <class T>
T one_from_json(const std::string& text, const char* what) {
  auto ir = value_of(ir_from_json(text, "<json>"));
  if (auto* value = std::get_if<T>(&ir)) return std::move(*value);
  throw CoreError({ErrorCode::bad_file, "another kind of file", {.file = "<json>", .expected = what}});
}

std::vector<int> placement_of(const Pipeline& pipeline) {
  std::vector<int> ranks;
  for (const StageId stage : pipeline.stage_ids()) ranks.push_back(pipeline.rank_of(stage).value());
  return ranks;
}

/// Errors: throws CoreError, for a dialect of what is no CSV, too.
Ir ir_of_text(const std::string& text, const std::string& name, const std::string& dialect,
              const std::string& communicators) {
  const CsvDialect known = value_of(dialect_from_name(dialect));
  if (known != CsvDialect::torch && is_native_json(text, name)) {
    throw CoreError(
        {ErrorCode::bad_argument,
         "a dialect is the alphabet of a CSV",
         {.found = concatenated("dialect='", dialect, "' with ", name), .expected = "a CSV, or no dialect"}});
  }
  return value_of(ir_from_text(text, name, {known, value_of(policy_from_name(communicators))}));
}

Ir read_ir(const std::string& path, const std::string& dialect, const std::string& communicators) {
  return ir_of_text(value_of(read_text_file(path)), path, dialect, communicators);
}

/// The functions that python/ppsim/lowering.py calls.
struct LoweringWords {
  std::string grouping, offload;
  std::optional<std::string> target, order, communicators, send_done_delay;  ///< none: the usual ones
  std::optional<std::string> recompute;  ///< none: what the model of the costs says
  std::optional<int> receive_buffers;
  bool load = false, unshard = false, reduce_grad = false, optimizer = false, clip = false;
  bool reduce_each_microbatch = false;
  Sources costs;
};

/// Errors: throws CoreError where words and the model of the costs differ.
StageRecompute asked_recompute(const LoweringWords& words) {
  const auto of_costs = recompute_of(words.costs);
  if (!words.recompute) return of_costs.value_or(StageRecompute());
  const StageRecompute asked = value_of(recompute_from_text(*words.recompute));
  if (!of_costs || asked == *of_costs) return asked;
  throw CoreError({ErrorCode::bad_argument,
                   "the costs are those of another recomputation",
                   {.found = "recompute=" + as_text(asked),
                    .expected = as_text(*of_costs) + ", as in Costs.from_model, or nothing"}});
}

/// Where no words ask for anything.
LoweringOptions default_lowering(const LoweringWords& words, const std::optional<Target>& target) {
  const std::optional<CommunicatorPolicy> policy = asked_policy(words.communicators);
  if (target) return usual_lowering(*target, value_of(communicators_for(*target, policy)));
  LoweringOptions options;
  options.communicators = policy.value_or(options.communicators);
  return options;
}

LoweringOptions lowering_options(const LoweringWords& words, const std::optional<Target>& target) {
  LoweringOptions options = default_lowering(words, target);
  if (words.order) value_of(set_order(options, *words.order));
  options.grouping = value_of(grouping_from_name(words.grouping));
  options.recompute = asked_recompute(words);
  options.offload = value_of(offload_from_text(words.offload));
  if (words.send_done_delay)
    options.send_done_delay = value_of(send_done_delay_from_text(*words.send_done_delay));
  options.receive_buffers = words.receive_buffers;
  options.load = words.load;
  options.unshard = words.unshard;
  options.reduce_grad = words.reduce_grad;
  options.reduce_each_microbatch = words.reduce_each_microbatch;
  options.optimizer = words.optimizer;
  options.clip = words.clip;
  return options;
}

/// Errors: throws CoreError for what only a backward has.
void check_extras(const Schedule& schedule, const LoweringWords& words) {
  if (!words.reduce_grad && !words.optimizer && !words.clip) return;
  const auto gives = [](const Action& action) { return gives_weight_gradient(action.kind); };
  for (const RankId rank : schedule.pipeline().rank_ids()) {
    for (const Cell& cell : schedule.row(rank)) {
      if (std::ranges::any_of(cell.actions(), gives)) return;
    }
  }
  throw CoreError({ErrorCode::bad_argument,
                   "reduce-grad, opt and clip need a backward, which the schedule does not have",
                   {.expected = "with_ of load or unshard"}});
}

/// For a target, what `ppsim lower --for` writes a file of.
Program lower_schedule(const Schedule& schedule, const LoweringWords& words) {
  std::optional<Target> target;
  if (words.target) target = value_of(target_named(*words.target));
  check_extras(schedule, words);
  const LoweringOptions options = lowering_options(words, target);
  std::optional<CostBinding> bound;
  if (!words.costs.empty()) bound = bound_costs(words.costs, schedule.pipeline());
  const CostTable* costs = bound ? &bound->tables.costs : nullptr;
  if (!target) return value_of(lower(schedule, options, costs));
  Program program = value_of(lower_for(*target, schedule, options, costs));
  value_of(check_runs(*target, program));
  return program;
}

void bind_lowering(nb::module_& module) {
  nb::class_<LoweringWords>(module, "LoweringWords", "What ppsim.lower asks.")
      .def(nb::init<>())
      .def_rw("target", &LoweringWords::target, nb::arg().none())
      .def_rw("order", &LoweringWords::order, nb::arg().none())
      .def_rw("communicators", &LoweringWords::communicators, nb::arg().none())
      .def_rw("grouping", &LoweringWords::grouping)
      .def_rw("recompute", &LoweringWords::recompute, nb::arg().none())
      .def_rw("offload", &LoweringWords::offload)
      .def_rw("send_done_delay", &LoweringWords::send_done_delay, nb::arg().none())
      .def_rw("receive_buffers", &LoweringWords::receive_buffers, nb::arg().none())
      .def_rw("load", &LoweringWords::load)
      .def_rw("unshard", &LoweringWords::unshard)
      .def_rw("reduce_grad", &LoweringWords::reduce_grad)
      .def_rw("reduce_each_microbatch", &LoweringWords::reduce_each_microbatch)
      .def_rw("optimizer", &LoweringWords::optimizer)
      .def_rw("clip", &LoweringWords::clip)
      .def_rw("costs", &LoweringWords::costs);
  module.def("lower", &lower_schedule, "schedule"_a, "words"_a, nb::call_guard<nb::gil_scoped_release>());
  module.def(
      "with_tied_ends", [](const Schedule& schedule) { return value_of(with_tied_ends(schedule)); },
      "schedule"_a);
}

std::vector<std::pair<int, int>> side_edges_of(const Pipeline& pipeline) {
  std::vector<std::pair<int, int>> pairs;
  for (const StageEdge& edge : pipeline.spec().side_edges)
    pairs.emplace_back(edge.from.value(), edge.to.value());
  return pairs;
}

/// Timelines. T: Schedule or Program.
template <class T>
void bind_pictures(nb::class_<T>& type) {
  type.def(
          "svg",
          [](const T& ir, const GivenText& given, const GivenCount& pixels) {
            const std::string title = given_text(given, "title");
            const int width = given_count(pixels, "width");
            const nb::gil_scoped_release free;
            return unit_svg(ir, title, width);
          },
          "title"_a.none() = "", "width"_a.none() = 1200,
          "The timeline as a picture, at one unit for F, I and W and two for B.")
      .def(
          "show",
          [](const T& ir, const GivenCount& width) {
            nb::print(unit_text(ir, given_count(width, "width")).c_str(), nb::str(""));
          },
          "width"_a.none() = 100, "Prints that timeline.")
      .def(
          "_repr_html_", [](const T& ir) { return unit_html(ir); }, nb::call_guard<nb::gil_scoped_release>());
}

/// The methods that both levels of the IR have. T: Schedule or Program.
template <class T>
void bind_common(nb::class_<T>& type, const char* what) {
  bind_pictures(type);
  type.def_prop_ro(
          "ranks", [](const T& ir) { return ir.pipeline().ranks(); }, "Pipeline ranks.")
      .def_prop_ro(
          "stages", [](const T& ir) { return ir.pipeline().stages(); }, "Stages of the model.")
      .def_prop_ro(
          "microbatches", [](const T& ir) { return ir.pipeline().microbatches(); }, "Microbatches of a step.")
      .def_prop_ro(
          "padding",
          [](const T& ir) { return ir.pipeline().microbatches() - batch_microbatches(ir.pipeline()); },
          "How many of the microbatches feed no update: what SPMD computes in its bubbles.")
      .def_prop_ro(
          "side_edges", [](const T& ir) { return side_edges_of(ir.pipeline()); },
          "Pairs of stages: the second reads an output of the first that has no gradient.")
      .def_prop_ro(
          "slices", [](const T& ir) { return ir.pipeline().slices(); },
          "Pieces of a microbatch along the sequence.")
      .def_prop_ro(
          "placement", [](const T& ir) { return placement_of(ir.pipeline()); }, "The rank of each stage.")
      .def_prop_ro(
          "rows", [](const T& ir) { return rows_of(ir); },
          "What each rank does, in order, in PyTorch's notation: one text a cell.")
      .def(
          "to_json", [](const T& ir) { return to_json(ir); }, nb::call_guard<nb::gil_scoped_release>(),
          "The native file of it, as text.")
      .def_static(
          "from_json",
          [what](const GivenText& given) {
            const std::string text = given_text(given, "text");
            const nb::gil_scoped_release free;
            return one_from_json<T>(text, what);
          },
          "text"_a.none(), "The inverse of to_json. Raises FileError.")
      .def(
          "to_csv",
          [](const T& ir, const GivenText& dialect) {
            return value_of(to_csv(ir, value_of(dialect_from_name(given_text(dialect, "dialect")))));
          },
          "dialect"_a.none() = "torch",
          "PyTorch's CSV of it, as text: torch, torch-2.15 (with WAIT cells), legacy or zero-bubble.")
      .def("__getstate__", [](const T& ir) { return to_json(ir); })
      .def("__setstate__",
           [what](T& ir, const std::string& text) { new (&ir) T(one_from_json<T>(text, what)); })
      .def(
          "__eq__", [](const T& a, const T& b) { return a == b; }, nb::is_operator(),
          nb::sig("def __eq__(self, other: object, /) -> bool"));
}

void bind_schedule(nb::module_& module) {
  nb::class_<Schedule> type(module, "Schedule",
                            "Which rank computes what, in which order. Complete: every stage computes every "
                            "microbatch exactly once. Immutable.");
  bind_common(type, "a Schedule");
  type.def_prop_ro("name", [](const Schedule& schedule) { return schedule.name(); })
      .def("__len__", &Schedule::action_count)
      .def("__hash__",
           [](const Schedule& schedule) {  // of what == compares, which is not the name
             std::string rows;
             for (const std::vector<std::string>& row : rows_of(schedule)) {
               for (const std::string& cell : row) rows += cell + ',';
               rows += '\n';
             }
             return nb::hash(nb::cast(rows));
           })
      .def("__repr__", [](const Schedule& schedule) {
        return "<ppsim.Schedule " + schedule.name() + ": " + as_text(schedule.pipeline()) + ">";
      });
}

void bind_program(nb::module_& module) {
  nb::class_<Program> type(module, "Program",
                           "What runs: per rank a list of instructions in issue order, transfers included. "
                           "Any list can be one, however wrong; verify says what it means. Immutable.");
  bind_common(type, "a Program");
  type.def_prop_ro(
          "hash", [](const Program& program) { return program_hash(program); },
          "128 bits as 32 hexadecimal digits, which results name it by.")
      .def_prop_ro(
          "communicators",
          [](const Program& program) {
            std::vector<std::string> names;
            for (const Communicator& one : program.communicators()) names.push_back(one.name);
            return names;
          },
          "Their names.")
      .def(
          "with_communicators",
          [](const Program& program, const GivenText& policy) {
            return value_of(
                with_communicators(program, value_of(policy_from_name(given_text(policy, "policy")))));
          },
          "policy"_a.none(),
          "The same instructions with communicators per-rank, per-pair, per-edge or per-stage-edge.")
      .def(
          "compute_only", [](const Program& program) { return value_of(compute_only(program)); },
          "The Schedule that it computes. Raises IllFormed where the rest is none.")
      .def_prop_ro(
          "actions",
          [](nb::handle self) {
            return structured(bytes_in(self, nb::cast<const Program&>(self).all_actions()), "action");
          },
          nb::sig("def actions(self) -> numpy.typing.NDArray[numpy.void]"),
          "Every action, rank by rank in issue order; not copied, read-only. Fields: subject (stage, "
          "block or collective), microbatch, peer, slice, kind (into ppsim.op_kinds); -1: none.")
      .def_prop_ro(
          "instructions",
          [](const Program& program) { return structured(bytes_of(program.instructions()), "instruction"); },
          nb::sig("def instructions(self) -> numpy.typing.NDArray[numpy.void]"),
          "Every instruction, as Run.trace has them; a copy, read-only. Fields: first_action and "
          "action_count (into actions), after_count, form (0 one action, 1 overlap, 2 group), blocking.")
      .def_prop_ro(
          "first",
          [](const Program& program) {
            std::vector<int> firsts;
            for (int r = 0; r <= program.pipeline().ranks(); ++r)
              firsts.push_back(program.first(RankId(r)).value());
            return firsts;
          },
          "Where each rank begins in instructions and Run.trace, and at the end how many there are.")
      .def("__len__", &Program::size)
      .def("__hash__", [](const Program& program) { return nb::hash(nb::cast(program_hash(program))); })
      .def("__repr__", [](const Program& program) {
        return "<ppsim.Program " + std::to_string(program.size()) +
               " instructions: " + as_text(program.pipeline()) + ">";
      });
}

}  // namespace

std::optional<CommunicatorPolicy> asked_policy(const std::optional<std::string>& name) {
  if (!name) return std::nullopt;
  return value_of(policy_from_name(*name));
}

void bind_ir(nb::module_& module) {
  const auto free = nb::call_guard<nb::gil_scoped_release>();
  bind_schedule(module);
  bind_program(module);
  bind_lowering(module);
  module.def("op_kinds", [] {
    std::vector<std::string> kinds;
    for (const OpInfo& row : kOpTable) kinds.emplace_back(row.text);
    return kinds;
  });
  module.def("read", &read_ir, "path"_a, "dialect"_a, "communicators"_a, free);
  module.def("read_text", &ir_of_text, "text"_a, "name"_a, "dialect"_a, "communicators"_a, free);
  module.def(
      "write_text",
      [](const std::string& path, const std::string& text) { value_of(write_text_file(path, text)); },
      "path"_a, "text"_a, free);
}

}  // namespace ppsim::python
