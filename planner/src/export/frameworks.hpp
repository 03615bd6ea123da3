#pragma once

#include <string>
#include <vector>

#include "ppsim/planner/export.hpp"

namespace ppsim::planner::exporting {

/// Errors: refused, bad_argument.
[[nodiscard]] Expected<Export> for_torchtitan(const Schedule& schedule, const std::vector<int>& layers);
[[nodiscard]] Expected<Export> for_megatron(const Schedule& schedule, const std::vector<int>& layers);
[[nodiscard]] Expected<Export> for_maxtext(const Schedule& schedule, const std::vector<int>& layers);

/// True where the ranks compute what those of a schedule of the registry compute, idle steps aside.
[[nodiscard]] bool has_rows_of(const Schedule& schedule, const std::string& name, int chunks);
/// Stages of each rank; 0: not the same number on all.
[[nodiscard]] int chunks_of(const Pipeline& pipeline);
/// Errors: refused.
[[nodiscard]] tl::unexpected<Error> refusal(const std::string& why, const std::string& expected,
                                            const std::string& found = "");

}  // namespace ppsim::planner::exporting
