#pragma once

#include <optional>
#include <string>

#include "command.hpp"

namespace ppsim::cli {

/// The policy that --communicators names; nothing for an empty text.
/// Errors: bad_argument.
[[nodiscard]] Expected<std::optional<CommunicatorPolicy>> policy_of(const std::string& name);

/// The Program of the subject; --communicators re-lowers what is no native Program.
[[nodiscard]] Expected<Program> program_of(const Subject& subject,
                                           const std::optional<CommunicatorPolicy>& policy);

/// The Program that a release would run of what it loaded: a schedule in its own lowering, a Program with its
/// communicators. Errors: refused where these are others.
[[nodiscard]] Expected<Program> program_for(const Target& target, const Subject& subject,
                                            CommunicatorPolicy policy);

/// The alphabet that --for and --dialect together mean.
/// Errors: bad_argument for one that the target does not read.
[[nodiscard]] Expected<std::string> dialect_for(const Target& target, const InputOptions& input);

/// Tells the person at the terminal that a compute_comms CSV, which has no communicators, was given some.
void note_assumed_communicators(const Subject& subject, const Output& output);

}  // namespace ppsim::cli
