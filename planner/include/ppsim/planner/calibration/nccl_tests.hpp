#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ppsim/workload/calibration.hpp"

namespace ppsim::planner {

/// Reads what a program of nccl-tests printed, or the JSON that it wrote (-J): out-of-place times by size,
/// and the GPUs by node. The operation is the one given, else what the file says, else what its name says. Of
/// a size that occurs several times the mean. Errors: bad_file with the line for what is no such output, one
/// that was cut off, wrong results, times of the host, one GPU, and an operation that no training step has;
/// bad_argument where nothing names it.
[[nodiscard]] Expected<MeasuredCollective> read_nccl_tests(std::string_view text, const std::string& file,
                                                           std::optional<MeasuredOperation> operation = {});

}  // namespace ppsim::planner

namespace ppsim {
using planner::read_nccl_tests;
}  // namespace ppsim
