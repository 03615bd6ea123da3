#pragma once

#include <string>

#include "ppsim/core/ir/program.hpp"

namespace ppsim {

/// The queues of an instruction as a trace file names them: one name, or several joined by '+'.
[[nodiscard]] std::string queues_text(const Program& program, InstructionId id);

}  // namespace ppsim
