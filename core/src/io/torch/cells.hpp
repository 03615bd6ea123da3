#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/action_scan.hpp"
#include "ppsim/core/ir/schedule.hpp"

namespace ppsim {

/// A cell of a PyTorch file: nothing, an action, a wait for one, or an overlapped pair.
struct TorchCell {
  std::string text;
  std::vector<ScannedAction> actions;
  bool waits = false;  ///< WAIT_SEND_F, WAIT_SEND_B or WAIT_REDUCE_GRAD; `actions` has what it waits for
  ErrorPlace place;    ///< file, row and column
};

/// The cells of a PyTorch file, a row per rank, and the pipeline that they imply.
class TorchCells {
 public:
  /// Errors: bad_file with row, cell, found and expected.
  [[nodiscard]] static Expected<TorchCells> read(std::string_view text, const std::string& file,
                                                 const Alphabet& alphabet);

  [[nodiscard]] const std::vector<std::vector<TorchCell>>& rows() const { return rows_; }

  /// Ranks are rows, a stage is placed where it appears, microbatches and stages count from 0 without gap.
  /// Errors: bad_file for a stage in two rows or a gap.
  [[nodiscard]] Expected<Pipeline> infer_pipeline() const;

  /// The actions of a cell.
  /// Errors: bad_file for a transfer that leads nowhere.
  [[nodiscard]] static Expected<std::vector<Action>> resolve(const Pipeline& pipeline, const TorchCell& cell);

 private:
  std::string file_;
  std::vector<std::vector<TorchCell>> rows_;
};

/// A cell without the blanks around it; PyTorch's reader strips cells too.
[[nodiscard]] std::string_view stripped(std::string_view text);

}  // namespace ppsim
