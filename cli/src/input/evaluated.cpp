#include "evaluated.hpp"

#include "communicators.hpp"
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

Expected<void> check_file(InputOptions input) {
  if (!names_file(input.input) || input.input == "-") return {};
  input.ranks = input.microbatches = input.chunks = input.slices = {};  // those of a name beside it
  input.settings.clear();
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
