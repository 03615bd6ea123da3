#include "program_writer.hpp"

#include <algorithm>
#include <limits>

#include "instruction_check.hpp"
#include "ppsim/core/execution/large_vector.hpp"
#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/ir/sequences.hpp"

namespace ppsim {

ProgramWriter::ProgramWriter(Pipeline pipeline, std::vector<Communicator> communicators,
                             const IdVector<RankId, RowSize>& rows)
    : program_(std::move(pipeline)), first_action_{0} {
  PPSIM_CHECK(rows.size() == as_size(program_.pipeline_.ranks()), "a Program has one row per rank");
  program_.communicators_ = std::move(communicators);
  program_.rank_begin_.push_back(0);
  program_.is_plain_ = std::ranges::all_of(rows, &RowSize::is_plain);
  for (const RowSize& row : rows) {
    const auto before = as_size(program_.rank_begin_.back());
    PPSIM_CHECK(row.instructions <= as_size(std::numeric_limits<std::int32_t>::max()) - before,
                "more instructions than ids");
    program_.rank_begin_.push_back(static_cast<std::int32_t>(before + row.instructions));
    first_action_.push_back(first_action_.back() + row.actions);
  }
  if (!program_.is_plain_) program_.instructions_ = large_vector<Instruction>(program_.size());
  program_.actions_ = large_vector<Action>(first_action_.back());
  program_.action_communicator_ = large_vector<CommunicatorId>(first_action_.back());
  check_communicators({program_.pipeline_, program_.communicators_}, rules_);
}

void ProgramWriter::set_send_done_delay(int delay) {
  if (delay < 0) rules_.broken("a send-done delay of ", delay, ", which is negative");
  program_.send_done_delay_ = delay;
}

void ProgramWriter::Part::begin_row(RankId rank) {
  if (rank_.valid()) {
    end_row();
    PPSIM_CHECK(rank == next(rank_), "a part writes rows that follow each other");
  } else {
    first_ = rank;
    next_instruction_ = writer_->program_.first(rank).index();
    next_action_ = writer_->first_action_[rank.index()];
  }
  rank_ = rank;
  row_begin_ = next_instruction_;
  row_end_ = writer_->program_.last(rank).index();
  actions_end_ = writer_->first_action_[rank.index() + 1];
}

void ProgramWriter::Part::end_row() const {
  PPSIM_CHECK(next_instruction_ == row_end_ && next_action_ == actions_end_,
              "a row is shorter or longer than announced");
}

void ProgramWriter::Part::append(const InstructionView& instruction) {
  const Program& program = writer_->program_;
  const InstructionPlace place{rank_, next_instruction_ - row_begin_, row_end_ - row_begin_};
  check_instruction({program.pipeline_, program.communicators_}, place, instruction, rules_);
  write(instruction);
}

void ProgramWriter::Part::append(const Action& action, CommunicatorId communicator) {
  const Program& program = writer_->program_;
  if (!is_plainly_good({program.pipeline_, program.communicators_}, rank_, action, communicator))
    return append({.actions = {&action, 1}, .communicators = {&communicator, 1}});
  check_room(1);
  if (program.is_plain_) {
    ++next_instruction_;
  } else {
    write_item({.first_action = static_cast<std::uint32_t>(next_action_),
                .first_after = static_cast<std::uint32_t>(after_.size())});
  }
  write_action(action, communicator);
}

void ProgramWriter::Part::append(std::span<const Action> actions,
                                 std::span<const CommunicatorId> communicators) {
  Program& program = writer_->program_;
  if (actions.empty()) return;  // a rank may have nothing to do
  if (!program.is_plain_) {
    for (std::size_t a = 0; a < actions.size(); ++a) append(actions[a], communicators[a]);
    return;
  }
  check_room(actions.size());
  PPSIM_CHECK(next_instruction_ + actions.size() <= row_end_, "a row is longer than announced");
  const InstructionContext context{program.pipeline_, program.communicators_};
  for (std::size_t a = 0; a < actions.size(); ++a) {
    if (is_plainly_good(context, rank_, actions[a], communicators[a])) continue;
    const InstructionPlace place{rank_, next_instruction_ + a - row_begin_, row_end_ - row_begin_};
    check_instruction(context, place, {actions.subspan(a, 1), communicators.subspan(a, 1), {}}, rules_);
  }
  std::ranges::copy(actions, program.actions_.data() + next_action_);
  std::ranges::copy(communicators, program.action_communicator_.data() + next_action_);
  next_instruction_ += actions.size();
  next_action_ += actions.size();
}

void ProgramWriter::Part::check_room(std::size_t actions) const {
  PPSIM_CHECK(next_instruction_ < row_end_ && next_action_ + actions <= actions_end_,
              "a row is longer than announced");
}

void ProgramWriter::Part::write_item(const Instruction& item) {
  if (!writer_->program_.is_plain_) writer_->program_.instructions_[next_instruction_] = item;
  ++next_instruction_;
}

void ProgramWriter::Part::write_action(const Action& action, CommunicatorId communicator) {
  writer_->program_.actions_[next_action_] = action;
  writer_->program_.action_communicator_[next_action_] = communicator;
  ++next_action_;
}

void ProgramWriter::Part::write(const InstructionView& instruction) {
  check_room(instruction.actions.size());
  PPSIM_CHECK(!writer_->program_.is_plain_ || is_plain(instruction), "an instruction in a plain row");
  write_item({.first_action = static_cast<std::uint32_t>(next_action_),
              .first_after = static_cast<std::uint32_t>(after_.size()),
              .action_count = static_cast<std::uint16_t>(instruction.actions.size()),
              .after_count = static_cast<std::uint16_t>(instruction.after.size()),
              .form = instruction.form,
              .blocking = instruction.blocking});
  for (std::size_t a = 0; a < instruction.actions.size(); ++a) {
    const bool has_communicator = a < instruction.communicators.size();
    write_action(instruction.actions[a], has_communicator ? instruction.communicators[a] : CommunicatorId());
  }
  for (const int after : instruction.after)
    after_.emplace_back(static_cast<std::int32_t>(row_begin_) + after);
}

/// A part counts its `after` as if there were no others before it.
void ProgramWriter::take_after(const Part& part) {
  const auto before = static_cast<std::uint32_t>(program_.after_.size());
  append_all(program_.after_, part.after_);
  if (before == 0) return;
  for (InstructionId id = program_.first(part.first_); id < program_.last(part.rank_); id = next(id))
    program_.instructions_[id.index()].first_after += before;
}

Expected<Program> ProgramWriter::finish(const std::vector<Part>& parts) {
  RankId expected(0);
  for (const Part& part : parts) {
    PPSIM_CHECK(part.first_ == expected, "parts follow each other");
    part.end_row();
    take_after(part);
    rules_.add(part.rules_);
    expected = next(part.rank_);
  }
  PPSIM_CHECK(expected.value() == program_.pipeline_.ranks(), "a Program has one row per rank");
  if (!rules_.hold()) return make_error(ErrorCode::bad_argument, rules_.text());
  program_.number_queues();
  return std::move(program_);
}

}  // namespace ppsim
