#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ppsim/core/ir/error.hpp"
#include "ppsim/schedules/registry.hpp"

namespace ppsim::cli {

/// Names and summaries of the schedules that a Python file registers with `ppsim.register`.
/// Errors: bad_argument with what Python says where the file, Python or its module ppsim fails.
[[nodiscard]] Expected<std::vector<std::pair<std::string, std::string>>> python_schedules(
    const std::string& file);

/// The text of one of them.
/// Errors: bad_argument with what the file raises.
[[nodiscard]] Expected<std::string> text_from_python(const std::string& file, const std::string& name,
                                                     const ScheduleParameters& parameters);

}  // namespace ppsim::cli
