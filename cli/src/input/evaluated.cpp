#include "evaluated.hpp"

#include "communicators.hpp"

namespace ppsim::cli {

Expected<SimulatedStep> evaluated(const std::string& command, Expected<Subject> subject,
                                  const TransportCapabilities& capabilities, const Output& output) {
  PPSIM_RETURN_IF_ERROR(subject);
  if (!subject->costs) return tl::unexpected(needs_costs(command));
  PPSIM_ASSIGN_OR_RETURN(auto program, default_program(*subject));
  note_assumed_communicators(*subject, output);
  return evaluate(subject->name, std::move(program), *std::move(subject->costs), capabilities);
}

}  // namespace ppsim::cli
