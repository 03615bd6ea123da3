// Native JSON of Schedules and Programs. What can be read can be written, read again and run, however wrong
// the Program is.

#include <algorithm>

#include "fuzz.hpp"
#include "ppsim/core/execution/execution_graph.hpp"
#include "ppsim/core/execution/naive_executor.hpp"
#include "ppsim/core/execution/well_formed.hpp"
#include "ppsim/core/io/json.hpp"
#include "ppsim/core/memory/tensors.hpp"

namespace {

constexpr std::size_t kSmall = 200;  // instructions

/// The rules one by one agree with the graph made of them.
void check_program(const ppsim::Program& program) {
  if (program.size() > kSmall) return;
  const ppsim::ExecutionGraph graph = ppsim::build_execution_graph(program, ppsim::rendezvous());
  const auto broken = ppsim::well_formed_violations(program, graph);
  const auto mismatched = ppsim::match_violations(program, graph);
  for (const auto& violations : {broken, mismatched}) {
    for (const ppsim::Violation& violation : violations)
      ppsim::fuzz::require(!violation.message.empty(), "a violation has a message");
  }
  const ppsim::NaiveRun run = ppsim::run_naively(program, ppsim::rendezvous(), ppsim::CostTable());
  using Outcome = ppsim::NaiveRun::Outcome;
  ppsim::fuzz::require((run.outcome == Outcome::mismatch) == !mismatched.empty(), "a mismatch is a mismatch");
  if (run.outcome == Outcome::mismatch) return;
  ppsim::fuzz::require((run.outcome == Outcome::finished) == ppsim::run_order(graph).complete,
                       "what runs has an order");
  static_cast<void>(ppsim::tensor_table(program));
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto ir = ppsim::ir_from_json(ppsim::fuzz::text_of(data, size), "input.json");
  if (!ppsim::fuzz::read(ir)) return 0;
  const std::string text = std::visit([](const auto& value) { return ppsim::to_json(value); }, *ir);
  const auto again = ppsim::ir_from_json(text, "output.json");
  ppsim::fuzz::require(again.has_value() && *again == *ir, "what is written reads as it was");
  if (const auto* program = std::get_if<ppsim::Program>(&*ir)) check_program(*program);
  return 0;
}
