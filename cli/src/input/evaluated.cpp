#include "evaluated.hpp"

#include "communicators.hpp"

namespace ppsim::cli {

Expected<Evaluation> evaluated(const std::string& command, Expected<Subject> subject,
                               const TransportCapabilities& capabilities, const Output& output) {
  PPSIM_RETURN_IF_ERROR(subject);
  if (!subject->costs)
    return make_error(ErrorCode::bad_argument, command + " needs costs: --unit, --costs or --model");
  PPSIM_ASSIGN_OR_RETURN(auto program, default_program(*subject));
  note_assumed_communicators(*subject, output);
  return evaluate(subject->name, std::move(program), *std::move(subject->costs), capabilities);
}

}  // namespace ppsim::cli
