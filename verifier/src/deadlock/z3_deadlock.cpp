#include <z3++.h>

#include <algorithm>

#include "ppsim/core/execution/analyzed_program.hpp"
#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/ir/hash.hpp"
#include "ppsim/verifier/solver/z3_check.hpp"
#include "solver/ask_z3.hpp"

namespace ppsim::verifier {
namespace {

/// One event that must happen after another one.
struct Precedence {
  std::size_t before;
  std::size_t after;
};

/// Starts and completions of instructions, messages and matches as numbered events, and what precedes what.
struct Events {
  std::size_t count = 0;
  std::vector<Precedence> precedences;
  bool impossible = false;  ///< some event lacks something that the Program does not hold
};

/// Events: start 2i and completion 2i+1 of instruction i; then message m leaves, m is received, match c
/// happens.
class EventBuilder {
 public:
  explicit EventBuilder(const ExecutionGraph& graph) : graph_(graph) {
    events_.count = 2 * graph.size() + 2 * graph.messages.size() + graph.matches.size();
  }

  Events build() {
    events_.impossible = !graph_.unsatisfiable.empty();
    for (std::size_t i = 0; i < graph_.size(); ++i) instruction(InstructionId(static_cast<std::int32_t>(i)));
    for (std::size_t m = 0; m < graph_.messages.size(); ++m) message(m);
    for (std::size_t c = 0; c < graph_.matches.size(); ++c) {
      events_.impossible = events_.impossible || !graph_.matches[c].complete;
      for (const InstructionId member : graph_.members_of(graph_.matches[c]))
        precede(start(member), match(c));
    }
    return std::move(events_);
  }

 private:
  [[nodiscard]] static std::size_t start(InstructionId id) { return 2 * id.index(); }
  [[nodiscard]] static std::size_t end(InstructionId id) { return 2 * id.index() + 1; }
  [[nodiscard]] std::size_t leaves(std::size_t m) const { return 2 * graph_.size() + m; }
  [[nodiscard]] std::size_t received(std::size_t m) const { return leaves(m) + graph_.messages.size(); }
  [[nodiscard]] std::size_t match(std::size_t c) const { return leaves(2 * graph_.messages.size() + c); }
  void precede(std::size_t before, std::size_t after) { events_.precedences.push_back({before, after}); }

  void instruction(InstructionId id) {
    precede(start(id), end(id));
    for (const InstructionId p : graph_.predecessors_of(id)) precede(end(p), start(id));
    for (const std::uint32_t m : graph_.messages_of(id)) {
      precede(graph_.messages[m].receive == id ? received(m) : leaves(m), end(id));
    }
    const std::int32_t met = graph_.match_of[id.index()];
    if (met >= 0) precede(match(as_size(met)), end(id));
  }

  void message(std::size_t m) {
    const Message& message = graph_.messages[m];
    precede(leaves(m), received(m));
    if (message.send.valid()) precede(start(message.send), leaves(m));
    if (message.previous >= 0) precede(leaves(as_size(message.previous)), leaves(m));
    if (message.credit >= 0) precede(received(as_size(message.credit)), leaves(m));
    if (message.receive.valid()) {
      precede(start(message.receive), graph_.capabilities.credits ? received(m) : leaves(m));
    }
    lacking(m);
  }

  /// A RECV without SEND never ends, nor does a SEND without RECV, unless the transport has room for it.
  void lacking(std::size_t m) {
    const Message& message = graph_.messages[m];
    if (message.complete()) return;
    const bool has_credit = graph_.capabilities.credits && message.send.valid() &&
                            (message.credit < 0 || graph_.messages[as_size(message.credit)].complete());
    events_.impossible = events_.impossible || !has_credit;
  }

  const ExecutionGraph& graph_;
  Events events_;
};

/// Whether the times of a model respect every precedence.
bool replays(const z3::model& model, const z3::expr_vector& time, const Events& events) {
  std::vector<std::int64_t> at;
  for (unsigned i = 0; i < time.size(); ++i) at.push_back(model.eval(time[i], true).get_numeral_int64());
  return std::ranges::all_of(events.precedences,
                             [&](const Precedence& p) { return at[p.before] < at[p.after]; });
}

QueryTitle title_of(const Program& program, const TransportCapabilities& capabilities) {
  const std::string transport =
      capabilities.credits ? std::to_string(*capabilities.credits) + " buffered messages" : "rendezvous";
  return {"deadlock", "Program " + program_hash(program) + " under " + transport,
          "Is there a time for every event after all that it waits for? Then the Program cannot deadlock.",
          "QF_IDL"};
}

/// Hands the question to Z3. An event that nothing brings about has no time.
z3::expr_vector pose(const Events& events, z3::solver& solver) {
  z3::context& context = solver.ctx();
  z3::expr_vector time(context);
  for (std::size_t i = 0; i < events.count; ++i)
    time.push_back(context.int_const(("t" + std::to_string(i)).c_str()));
  for (const Precedence& p : events.precedences) {
    solver.add(time[static_cast<unsigned>(p.after)] - time[static_cast<unsigned>(p.before)] >= 1);
  }
  if (events.impossible) solver.add(context.bool_val(false));
  return time;
}

SolverAnswer ask(const Events& events, const QueryTitle& title, const SolverOptions& options) {
  z3::context context;
  z3::solver solver(context, "QF_IDL");
  const z3::expr_vector time = pose(events, solver);
  const SolverReply reply = ask_z3(solver, title, options);
  switch (reply.answer) {
    case SolverQuery::Answer::unsat:
      return {SolverAnswer::Outcome::deadlock, ""};
    case SolverQuery::Answer::unknown:
      return {SolverAnswer::Outcome::unknown, reply.reason};
    case SolverQuery::Answer::sat:
      break;
  }
  PPSIM_CHECK(replays(solver.get_model(), time, events), "Z3's model breaks a precedence");
  return {SolverAnswer::Outcome::deadlock_free, ""};
}

SolverAnswer unknown(std::string reason) { return {SolverAnswer::Outcome::unknown, std::move(reason)}; }

}  // namespace

SolverAnswer deadlock_by_z3(const AnalyzedProgram& analyzed, const SolverOptions& options) {
  if (analyzed.capabilities().residency)
    return unknown("a residency limit leaves choices that this question does not hold");
  const Events events = EventBuilder(analyzed.graph()).build();
  if (events.count > as_size(kSolverEventLimit)) {
    return unknown(std::to_string(events.count) + " events, more than " + std::to_string(kSolverEventLimit));
  }
  if (events.impossible && !options.queries) return {SolverAnswer::Outcome::deadlock, ""};
  if (options.timeout_s <= 0) return unknown(kTimeLimit);
  try {
    return ask(events, title_of(analyzed.program(), analyzed.capabilities()), options);
  } catch (const z3::exception& error) {
    return unknown(std::string("Z3: ") + error.msg());
  }
}

}  // namespace ppsim::verifier
