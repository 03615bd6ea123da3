#pragma once

#include <vector>

#include "ppsim/core/ir/program.hpp"

namespace ppsim {

/// Which versions of each block's parameters a rank holds in a buffer of their own. An OPT updates in place
/// where nothing after it reads the version that it starts from, as in a synchronous step; else it makes a
/// new one.
class ParameterBuffers {
 public:
  ParameterBuffers(const Program& program, RankId rank);

  /// The version by which the buffer goes that holds `version` where the block has it: the oldest that the
  /// buffer held.
  [[nodiscard]] int holding(BlockId block, int version) const;
  /// The buffer of what the step leaves.
  [[nodiscard]] int newest(BlockId block) const { return buffers_[block.index()].back(); }
  /// Whether the rank has an OPT of the block for the update.
  [[nodiscard]] bool has_update(BlockId block, int update) const;

 private:
  struct Update {
    int number;
    InstructionId optimizer;
  };
  void note(const Action& action, InstructionId id);
  void note_reader(BlockId block, int version, InstructionId id);
  [[nodiscard]] bool read_behind(BlockId block, const Update& update) const;

  const Pipeline& pipeline_;
  std::vector<std::vector<int>> buffers_;     ///< per block, ascending
  std::vector<std::vector<Update>> updates_;  ///< per block, ascending: those with an OPT on the rank
  std::vector<std::vector<InstructionId>> last_reader_;  ///< per block and version
};

}  // namespace ppsim
