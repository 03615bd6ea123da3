#pragma once

#include <optional>
#include <string>

#include "command.hpp"

namespace ppsim::cli {

/// What --communicators names; nothing for an empty text.
/// Errors: bad_argument.
[[nodiscard]] Expected<std::optional<CommunicatorPolicy>> policy_of(const std::string& name);

/// The Program of the subject; --communicators re-lowers what is no native Program.
[[nodiscard]] Expected<Program> program_of(const Subject& subject,
                                           const std::optional<CommunicatorPolicy>& policy);

/// The Program as --for would run it: a schedule in the release's own lowering.
[[nodiscard]] Expected<Program> program_for(const Target& target, const Subject& subject,
                                            CommunicatorPolicy policy);

/// Tells the person at the terminal that a compute_comms CSV, which has no communicators, was given some.
void note_assumed_communicators(const Subject& subject, const Output& output);

}  // namespace ppsim::cli
