#include "evaluated.hpp"

#include "communicators.hpp"
#include "ppsim/core/ir/concatenated.hpp"
#include "ppsim/core/ir/padding.hpp"
#include "ppsim/planner/ir_source.hpp"

namespace ppsim::cli {

Expected<SimulatedStep> evaluated(const std::string& command, Expected<Subject> subject,
                                  const TransportCapabilities& capabilities, const Output& output) {
  PPSIM_RETURN_IF_ERROR(subject);
  if (!subject->costs) return tl::unexpected(needs_costs(command));
  PPSIM_ASSIGN_OR_RETURN(auto program, default_program(*subject));
  note_assumed_communicators(*subject, output);
  return evaluate(subject->name, std::move(program), *std::move(subject->costs), capabilities);
}

Expected<void> check_comparable(const std::string& what, const SimulatedStep& first,
                                const SimulatedStep& other) {
  const Pipeline& a = first.program().pipeline();
  const Pipeline& b = other.program().pipeline();
  if (a.ranks() == b.ranks() && batch_microbatches(a) == batch_microbatches(b)) return {};
  return make_error(
      ErrorCode::bad_argument, what + " the same ranks and microbatches",
      {.found = concatenated(other.name, " with ", b),
       .expected = concatenated(a.ranks(), " ranks and ", batch_microbatches(a), " microbatches")});
}

Expected<void> check_file(InputOptions input) {
  if (!names_file(input.input) || input.input == "-") return {};
  input.drop_parameters();  // those of a name beside it
  return read_subject(input, CostOptions()).map([](const Subject&) {});
}

Error without_costs(const std::string& command, InputOptions input, const std::vector<std::string>& inputs) {
  for (const std::string& one : inputs) {
    input.input = one;
    if (auto good = check_file(input); !good) return good.error();
  }
  return needs_costs(command);
}

}  // namespace ppsim::cli
