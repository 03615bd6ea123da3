#pragma once

#include <string>
#include <string_view>

#include "ppsim/planner/ir_source.hpp"

namespace ppsim::planner {

/// True of a text that is a list or dictionary of PyTorch's actions as Python prints it.
[[nodiscard]] bool is_python_list(std::string_view text);
[[nodiscard]] Error python_list_error(const std::string& file);

/// The schedule read from a CSV, unless it has another alphabet than it was read in; errors say so too, and
/// where the last row of the file has no end.
[[nodiscard]] Expected<Ir> looked_at(Expected<Ir> ir, std::string_view text, const std::string& file,
                                     CsvDialect dialect);

}  // namespace ppsim::planner
