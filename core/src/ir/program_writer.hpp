#pragma once

#include <span>
#include <vector>

#include "ppsim/core/ir/program.hpp"
#include "rules.hpp"

namespace ppsim {

/// One instruction to be written into a Program; what it refers to lives until then.
struct InstructionView {
  std::span<const Action> actions;
  std::span<const CommunicatorId> communicators;  ///< parallel to actions, or empty without communication
  std::span<const int> after;                     ///< positions in the list of its rank
  InstructionForm form = InstructionForm::single;
  bool blocking = false;
};

/// Whether an instruction is one action and nothing else.
[[nodiscard]] inline bool is_plain(const InstructionView& instruction) {
  return instruction.actions.size() == 1 && instruction.after.empty() &&
         instruction.form == InstructionForm::single && !instruction.blocking;
}

/// The numbers of instructions and actions that the list of a rank will hold.
struct RowSize {
  std::size_t instructions = 0;
  std::size_t actions = 0;
  bool is_plain = true;  ///< as all of them are
};

/// Makes a Program instruction by instruction, straight into its flat arrays, and checks what ProgramBuilder
/// promises.
class ProgramWriter {
 public:
  /// Writes the rows of some ranks that follow each other. Several may write at the same time.
  class Part {
   public:
    /// Requires: the row before is as long as announced.
    void begin_row(RankId rank);
    void append(const InstructionView& instruction);
    /// A single action and its communicator, which is invalid for computation.
    void append(const Action& action, CommunicatorId communicator);
    /// Many such actions. Requires: a communicator for each.
    void append(std::span<const Action> actions, std::span<const CommunicatorId> communicators);

   private:
    friend class ProgramWriter;
    explicit Part(ProgramWriter& writer) : writer_(&writer) {}
    void end_row() const;
    void write(const InstructionView& instruction);
    void check_room(std::size_t actions) const;
    void write_item(const Instruction& item);
    void write_action(const Action& action, CommunicatorId communicator);

    ProgramWriter* writer_;
    RankId first_;  ///< invalid before the first row
    RankId rank_;
    std::size_t row_begin_ = 0;
    std::size_t row_end_ = 0;
    std::size_t actions_end_ = 0;
    std::size_t next_instruction_ = 0;
    std::size_t next_action_ = 0;
    std::vector<InstructionId> after_;
    Rules rules_;
  };

  /// Requires: a size for every rank.
  ProgramWriter(Pipeline pipeline, std::vector<Communicator> communicators,
                const IdVector<RankId, RowSize>& rows);

  /// Requires: not negative.
  void set_send_done_delay(int delay);
  [[nodiscard]] Part part() { return Part(*this); }

  /// Requires: parts in the order of their ranks, which have written every row.
  /// Errors: those of ProgramBuilder::build.
  [[nodiscard]] Expected<Program> finish(const std::vector<Part>& parts);

 private:
  void take_after(const Part& part);

  Program program_;
  std::vector<std::size_t> first_action_;  ///< per rank, and one past the end
  Rules rules_;
};

}  // namespace ppsim
