#pragma once

#include <span>
#include <vector>

#include "ppsim/core/ir/program.hpp"
#include "rules.hpp"

namespace ppsim {

/// One instruction on its way into a Program; what it refers to lives until it is written.
struct InstructionView {
  std::span<const Action> actions;
  std::span<const CommunicatorId> communicators;  ///< parallel to actions, or empty without communication
  std::span<const int> after;                     ///< positions in the list of its rank
  InstructionForm form = InstructionForm::single;
  bool blocking = false;
};

/// Makes a Program instruction by instruction, straight into its flat arrays, and checks what ProgramBuilder
/// promises.
class ProgramWriter {
 public:
  ProgramWriter(Pipeline pipeline, std::vector<Communicator> communicators);

  /// Requires: not negative.
  void set_send_done_delay(int delay);
  void reserve(std::size_t instructions, std::size_t actions);
  /// Starts the list of the next rank, which will have `size` instructions.
  void begin_row(std::size_t size);
  void append(const InstructionView& instruction);

  /// Requires: a row for every rank, as long as announced.
  /// Errors: those of ProgramBuilder::build.
  [[nodiscard]] Expected<Program> finish();

 private:
  void write(const InstructionView& instruction);

  Program program_;
  std::size_t row_size_ = 0;
  Rules rules_;
};

}  // namespace ppsim
