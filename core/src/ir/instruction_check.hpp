#pragma once

#include "program_writer.hpp"

namespace ppsim {

/// Where an instruction stands, for messages.
struct InstructionPlace {
  RankId rank;
  std::size_t position;
  std::size_t row_size;
};
std::ostream& operator<<(std::ostream& out, const InstructionPlace& place);

/// The ids that instructions may refer to.
struct InstructionContext {
  const Pipeline& pipeline;
  const std::vector<Communicator>& communicators;
};

/// Reports communicators without members, with unordered ones, or outside the pipeline.
void check_communicators(const InstructionContext& context, Rules& rules);

/// Reports what makes an instruction no part of any Program: its form, ids, communicators and `after`.
void check_instruction(const InstructionContext& context, const InstructionPlace& place,
                       const InstructionView& instruction, Rules& rules);

}  // namespace ppsim
