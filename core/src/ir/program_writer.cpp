#include "program_writer.hpp"

#include <limits>

#include "instruction_check.hpp"
#include "ppsim/core/ir/check.hpp"

namespace ppsim {

ProgramWriter::ProgramWriter(Pipeline pipeline, std::vector<Communicator> communicators)
    : program_(std::move(pipeline)) {
  program_.communicators_ = std::move(communicators);
  program_.rank_begin_.push_back(0);
  check_communicators({program_.pipeline_, program_.communicators_}, rules_);
}

void ProgramWriter::set_send_done_delay(int delay) {
  if (delay < 0) rules_.broken("a send-done delay of ", delay, ", which is negative");
  program_.send_done_delay_ = delay;
}

void ProgramWriter::reserve(std::size_t instructions, std::size_t actions) {
  program_.instructions_.reserve(instructions);
  program_.actions_.reserve(actions);
  program_.action_communicator_.reserve(actions);
}

void ProgramWriter::begin_row(std::size_t size) {
  const auto written = static_cast<std::size_t>(program_.rank_begin_.back());
  PPSIM_CHECK(program_.instructions_.size() == written, "the row before is shorter or longer than announced");
  PPSIM_CHECK(size <= static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()) - written,
              "more instructions than ids");
  row_size_ = size;
  program_.rank_begin_.push_back(static_cast<std::int32_t>(written + size));
}

void ProgramWriter::append(const InstructionView& instruction) {
  const std::size_t rows = program_.rank_begin_.size() - 1;
  const auto begin = static_cast<std::size_t>(program_.rank_begin_[rows - 1]);
  const InstructionPlace place{RankId(static_cast<std::int32_t>(rows - 1)),
                               program_.instructions_.size() - begin, row_size_};
  check_instruction({program_.pipeline_, program_.communicators_}, place, instruction, rules_);
  write(instruction);
}

void ProgramWriter::write(const InstructionView& instruction) {
  Instruction item;
  item.first_action = static_cast<std::uint32_t>(program_.actions_.size());
  item.first_after = static_cast<std::uint32_t>(program_.after_.size());
  item.action_count = static_cast<std::uint16_t>(instruction.actions.size());
  item.after_count = static_cast<std::uint16_t>(instruction.after.size());
  item.form = instruction.form;
  item.blocking = instruction.blocking;
  program_.instructions_.push_back(item);
  for (std::size_t a = 0; a < instruction.actions.size(); ++a) {
    program_.actions_.push_back(instruction.actions[a]);
    program_.action_communicator_.push_back(
        a < instruction.communicators.size() ? instruction.communicators[a] : CommunicatorId());
  }
  const std::int32_t begin = program_.rank_begin_[program_.rank_begin_.size() - 2];
  for (const int after : instruction.after) program_.after_.emplace_back(begin + after);
}

Expected<Program> ProgramWriter::finish() {
  PPSIM_CHECK(program_.rank_begin_.size() == static_cast<std::size_t>(program_.pipeline_.ranks()) + 1,
              "a Program has one row per rank");
  PPSIM_CHECK(program_.instructions_.size() == static_cast<std::size_t>(program_.rank_begin_.back()),
              "the last row is shorter or longer than announced");
  if (!rules_.hold()) return make_error(ErrorCode::bad_argument, rules_.text());
  program_.number_queues();
  return std::move(program_);
}

}  // namespace ppsim
