#pragma once

#include <string>

#include "ppsim/simulator/chakra/chakra_trace.hpp"

namespace ppsim::planner {

/// Reads the Chakra traces of all ranks: PREFIX.0.et, PREFIX.1.et, ... of a prefix, of the only one in a
/// folder, or of the file of one rank; and the groups in comm_groups.json beside them where it is there.
/// Errors: those of read_chakra and add_chakra_groups; bad_file where there are no such files, a folder has
/// several prefixes, or a rank is missing.
[[nodiscard]] Expected<ChakraTrace> read_chakra_files(const std::string& path);

}  // namespace ppsim::planner

namespace ppsim {
using planner::read_chakra_files;
}  // namespace ppsim
