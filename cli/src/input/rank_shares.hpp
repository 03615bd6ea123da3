#pragma once

#include <string>

#include "command.hpp"

namespace ppsim::cli {

/// --per: what --unit is the cost of.
void add_per_option(Command& command, std::string& per);
/// Errors: bad_argument where there are other costs than --unit to share.
[[nodiscard]] Expected<void> check_per(const std::string& per, const CostOptions& costs);
/// read_subject, with --unit as --per has it.
[[nodiscard]] Expected<Subject> read_subject_per(const std::string& per, const InputOptions& input,
                                                 const CostOptions& costs);

}  // namespace ppsim::cli
