#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "packed_column.hpp"
#include "ppsim/core/ir/program.hpp"

namespace ppsim::simulator {

/// The texts of a run's instructions with # in place of each microbatch: "3F#" stands for all forwards of
/// stage 3.
class ReportTexts {
 public:
  explicit ReportTexts(const Program& program) : program_(program) {}

  /// Which text some actions of one instruction have.
  int text_of(InstructionForm form, std::span<const Action> actions);
  /// As many as there are # in it.
  [[nodiscard]] std::vector<int> microbatches_of(std::span<const Action> actions) const;
  /// Of each text itself, and [kind, chunk, which # or -1] of each action, with a 1 behind that of padding.
  [[nodiscard]] nlohmann::ordered_json json() const;

 private:
  struct Text {
    int index = 0;
    std::vector<Action> actions;
  };

  const Program& program_;
  std::map<std::pair<std::string, std::vector<bool>>, Text> texts_;  ///< by which actions are padding, too
};

/// Instructions as two columns: which text, and its microbatches as what they are more than those it had
/// last.
class TextColumns {
 public:
  explicit TextColumns(ReportTexts& texts) : texts_(texts) {}

  void add(InstructionForm form, std::span<const Action> actions);
  void add_nothing() { text_.add(0); }
  [[nodiscard]] nlohmann::ordered_json json() const;

 private:
  ReportTexts& texts_;
  std::map<int, std::vector<int>> last_;
  PackedColumn text_, microbatch_;
};

}  // namespace ppsim::simulator
