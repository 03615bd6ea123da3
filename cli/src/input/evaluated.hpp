#pragma once

#include "command.hpp"
#include "ppsim/planner/evaluate.hpp"

namespace ppsim::cli {

/// The step of an input at its costs: where the commands start that ask what would change it.
/// Errors: bad_argument without costs, which `command` needs; those of `subject`, default_program and
/// evaluate.
[[nodiscard]] Expected<SimulatedStep> evaluated(const std::string& command, Expected<Subject> subject,
                                                const TransportCapabilities& capabilities,
                                                const Output& output);

/// Steps of the same work on the same devices can be compared. `what`: "a comparison needs".
/// Errors: bad_argument where ranks or microbatches differ.
[[nodiscard]] Expected<void> check_comparable(const std::string& what, const SimulatedStep& first,
                                              const SimulatedStep& other);

/// Reads an input that is a file, so that its errors are told before costs that are missing.
/// Errors: those of read_subject.
[[nodiscard]] Expected<void> check_file(InputOptions input);
/// The error of a command that costs were not given to, or that of a file among its inputs.
[[nodiscard]] Error without_costs(const std::string& command, InputOptions input,
                                  const std::vector<std::string>& inputs);

}  // namespace ppsim::cli
