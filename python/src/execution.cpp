// The facts of a Program that a runtime in Python needs to execute it: which instruction waits for which,
// and how to explain a stop.

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cost_binding.hpp"
#include "ppsim/core/certificate/certificate.hpp"
#include "ppsim/core/execution/wait_analysis.hpp"
#include "ppsim/core/execution/well_formed.hpp"
#include "ppsim/core/io/json.hpp"
#include "ppsim/core/io/text.hpp"
#include "ppsim/core/io/trace_csv.hpp"
#include "ppsim/core/ir/transports.hpp"
#include "ppsim/gpu_backend/executor/measured_costs.hpp"

namespace ppsim::python {
namespace {

using Ids = std::vector<int>;

template <class Range>
Ids numbers(const Range& ids) {
  Ids result;
  for (const auto id : ids) result.push_back(id.value());
  return result;
}

/// Waits as Python has them: instruction, what it waits for (-1: nothing brings it about), reason, the wait
/// in words.
using WaitTuple = std::tuple<int, int, std::string, std::string>;

/// A Program by numbers. The Program is copied: Python may drop its own.
class Execution {
 public:
  Execution(const Program& program, const std::string& transport_name)
      : analyzed_(Program(program), value_of(transport(transport_name))) {}

  [[nodiscard]] std::vector<Ids> waits() const {
    std::vector<Ids> result;
    for (const InstructionId id : all()) result.push_back(numbers(analyzed_.graph().predecessors_of(id)));
    return result;
  }
  [[nodiscard]] std::vector<Ids> queues() const {
    std::vector<Ids> result;
    for (const InstructionId id : all()) result.push_back(program_.queues_of(id));
    return result;
  }
  [[nodiscard]] std::vector<std::string> queue_names() const {
    std::vector<std::string> result;
    for (int queue = 0; queue < program_.queue_count(); ++queue) result.push_back(program_.queue_name(queue));
    return result;
  }
  [[nodiscard]] std::vector<std::string> texts() const {
    std::vector<std::string> result;
    for (const InstructionId id : all()) result.push_back(actions_text(program_, id));
    return result;
  }
  /// Of each action; -1 where it has none.
  [[nodiscard]] Ids action_communicators() const {
    Ids result;
    for (const InstructionId id : all())
      for (const CommunicatorId communicator : program_.communicators_of(id))
        result.push_back(communicator.value());
    return result;
  }
  /// The rank at the other end of each transfer; -1 for other actions.
  [[nodiscard]] Ids action_peers() const {
    Ids result;
    for (const Action& action : program_.all_actions())
      result.push_back(is_transfer(action.kind) ? peer_rank(pipeline(), action).value() : -1);
    return result;
  }
  [[nodiscard]] std::vector<Ids> members() const {
    std::vector<Ids> result;
    for (const Communicator& communicator : program_.communicators())
      result.push_back(numbers(communicator.members));
    return result;
  }
  [[nodiscard]] std::vector<Ids> blocks() const {
    std::vector<Ids> result;
    for (const ParameterBlock& block : pipeline().spec().blocks) result.push_back(numbers(block.stages));
    return result;
  }
  /// Blocks whose REDUCE_GRAD has the number of a microbatch.
  [[nodiscard]] Ids reduced_each_microbatch() const {
    Ids result;
    const auto& blocks = pipeline().spec().blocks.items();
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      if (blocks[b].reduced_each_microbatch) result.push_back(static_cast<int>(b));
    }
    return result;
  }
  [[nodiscard]] std::vector<std::string> exchanges() const {
    std::vector<std::string> result;
    for (const Collective& collective : pipeline().spec().collectives) {
      if (collective.purpose == CollectivePurpose::exchange) result.push_back(collective.name);
    }
    return result;
  }
  [[nodiscard]] bool clips() const {
    return std::ranges::any_of(pipeline().spec().collectives, &Collective::per_update);
  }
  [[nodiscard]] Ids updates() const {
    return {pipeline().spec().update.begin(), pipeline().spec().update.end()};
  }
  [[nodiscard]] bool asynchronous() const { return pipeline().asynchronous(); }
  [[nodiscard]] int version(int stage, int microbatch) const {
    return pipeline().version(checked(stage), MicrobatchId(checked_microbatch(microbatch)));
  }
  [[nodiscard]] bool on_route(int stage, int microbatch) const {
    return pipeline().on_route(checked(stage), MicrobatchId(checked_microbatch(microbatch)));
  }
  [[nodiscard]] Ids producers(int stage, int microbatch) const {
    return numbers(pipeline().producers(checked(stage), MicrobatchId(checked_microbatch(microbatch))));
  }
  [[nodiscard]] Ids consumers(int stage, int microbatch) const {
    return numbers(pipeline().consumers(checked(stage), MicrobatchId(checked_microbatch(microbatch))));
  }
  /// The reasons why it cannot run: broken rules and ends that name different things.
  [[nodiscard]] std::vector<std::string> mismatches() const {
    std::vector<std::string> result;
    for (const Violation& violation : match_violations(program_, analyzed_.graph()))
      result.push_back(violation.message);
    return result;
  }

  /// The wait of every incomplete instruction that its host has reached. Requires: a state of each
  /// instruction.
  [[nodiscard]] std::vector<WaitTuple> waits_in(const std::vector<bool>& started,
                                                const std::vector<bool>& complete) const {
    RunState state;
    state.started.assign(started.begin(), started.end());
    state.complete.assign(complete.begin(), complete.end());
    check_states(state);
    const WaitAnalysis analysis(program_, analyzed_.graph(), std::move(state));
    std::vector<WaitTuple> result;
    for (const InstructionId id : all()) {
      if (analysis.complete(id)) continue;
      for (const InstructionWait& wait : analysis.waits_of(id)) {
        result.emplace_back(wait.waiter.value(), wait.waits_for.valid() ? wait.waits_for.value() : -1,
                            std::string(wait_reason_name(wait.reason)),
                            to_string(in_words(program_, analyzed_.graph(), wait)));
      }
    }
    return result;
  }

  /// Why no run of the Program can have gone like this file. Errors: throws CoreError for what is no trace.
  [[nodiscard]] std::vector<std::string> trace_errors(const std::string& csv) const {
    std::vector<std::string> result;
    for (const Violation& violation : trace_violations({program_, rendezvous()}, trace(csv)))
      result.push_back(violation.message);
    return result;
  }
  /// Mean duration of each cost class, all of them counted, and their spread over traces, as a table in JSON.
  [[nodiscard]] std::string measured(const std::vector<std::string>& csvs) const {
    std::vector<TimedTrace> traces;
    for (const std::string& csv : csvs) traces.push_back(trace(csv));
    const auto durations = gpu_backend::measured_durations({program_, rendezvous()}, traces);
    Tables tables;
    tables.costs = gpu_backend::mean_costs(durations, 0);
    tables.spreads = gpu_backend::cost_spreads(durations);
    return to_json(tables);
  }

 private:
  [[nodiscard]] const Pipeline& pipeline() const { return program_.pipeline(); }
  [[nodiscard]] std::vector<InstructionId> all() const {
    const auto ids = program_.ids();
    return {ids.begin(), ids.end()};
  }
  [[nodiscard]] TimedTrace trace(const std::string& csv) const {
    return value_of(trace_from_csv(csv, "<trace>", program_));
  }
  [[nodiscard]] StageId checked(int stage) const {
    if (stage >= 0 && stage < pipeline().stages()) return StageId(stage);
    throw CoreError(
        {ErrorCode::bad_argument, "no such stage", {.found = std::to_string(stage), .expected = "a stage"}});
  }
  [[nodiscard]] int checked_microbatch(int microbatch) const {
    if (microbatch >= 0 && microbatch < pipeline().microbatches()) return microbatch;
    throw CoreError({ErrorCode::bad_argument,
                     "no such microbatch",
                     {.found = std::to_string(microbatch), .expected = "a microbatch"}});
  }
  void check_states(const RunState& state) const {
    if (state.started.size() == program_.size() && state.complete.size() == program_.size()) return;
    throw CoreError(
        {ErrorCode::bad_argument,
         "a state of each instruction is needed",
         {.found = std::to_string(state.started.size()), .expected = std::to_string(program_.size())}});
  }

  AnalyzedProgram analyzed_;
  const Program& program_ = analyzed_.program();
};

/// Errors: throws CoreError where the proof does not hold of this Program on this transport.
void check_proof_on(const std::string& certificate, const Program& program, const std::string& name,
                    const Sources& costs) {
  const Certificate proof = value_of(certificate_from_json(certificate, "<certificate>"));
  const TransportCapabilities used = value_of(transport(name));
  if (costs.empty()) return value_of(check_certificate_on(used, proof, program, nullptr));
  const SizeTable sizes = bound_costs(costs, program.pipeline()).tables.sizes;
  value_of(check_certificate_on(used, proof, program, &sizes));
}

}  // namespace

void bind_execution(nb::module_& module) {
  nb::class_<Execution>(
      module, "Execution",
      "A Program as numbers, for what executes it: instructions rank by rank in issue order.")
      .def(nb::init<const Program&, const std::string&>(), "program"_a, "transport"_a)
      .def_prop_ro("waits", &Execution::waits, "What must be complete before each instruction starts.")
      .def_prop_ro("queues", &Execution::queues, "Queues of each instruction; 0 compute, 1 copy.")
      .def_prop_ro("queue_names", &Execution::queue_names)
      .def_prop_ro("texts", &Execution::texts, "Each instruction's actions in words.")
      .def_prop_ro("action_communicators", &Execution::action_communicators, "Of each action; -1: none.")
      .def_prop_ro("action_peers", &Execution::action_peers,
                   "Rank at the other end of each action; -1: none.")
      .def_prop_ro("members", &Execution::members, "Ranks of each communicator.")
      .def_prop_ro("blocks", &Execution::blocks, "Stages that own each parameter block.")
      .def_prop_ro("reduced_each_microbatch", &Execution::reduced_each_microbatch,
                   "Blocks with a REDUCE_GRAD for every microbatch, whose number it has.")
      .def_prop_ro("exchanges", &Execution::exchanges,
                   "Names of collectives between parts of sharded stages.")
      .def_prop_ro("clips", &Execution::clips, "Whether the norm of all gradients is there to clip by.")
      .def_prop_ro("updates", &Execution::updates, "The update that each microbatch feeds.")
      .def_prop_ro("asynchronous", &Execution::asynchronous, "Whether a step makes versions of weights.")
      .def("version", &Execution::version, "stage"_a, "microbatch"_a)
      .def("on_route", &Execution::on_route, "stage"_a, "microbatch"_a)
      .def("producers", &Execution::producers, "stage"_a, "microbatch"_a)
      .def("consumers", &Execution::consumers, "stage"_a, "microbatch"_a)
      .def("mismatches", &Execution::mismatches)
      .def("waits_in", &Execution::waits_in, "started"_a, "complete"_a,
           "(instruction, what it waits for or -1, reason, in words) in a state of a run.")
      .def("trace_errors", &Execution::trace_errors, "csv"_a)
      .def("measured", &Execution::measured, "csvs"_a);
  module.def("check_certificate_on", &check_proof_on, "certificate"_a, "program"_a, "transport"_a, "costs"_a,
             nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace ppsim::python
