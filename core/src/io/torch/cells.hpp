#pragma once

#include <array>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/action_scan.hpp"
#include "io/csv_cells.hpp"
#include "ppsim/core/ir/schedule.hpp"

namespace ppsim {

/// An action as PyTorch's files have it: without slice and peer.
struct TorchAction {
  OpKind kind = OpKind::forward;
  std::int32_t subject = 0;
  std::int32_t number = -1;  ///< -1: none

  [[nodiscard]] ScannedAction scanned() const {
    return {kind, subject, number < 0 ? std::nullopt : std::optional(number), std::nullopt, std::nullopt};
  }
};

/// Reads passes as nearly all cells are, such as `2F0`.
class PassReader {
 public:
  explicit PassReader(const Alphabet& alphabet);

  /// Takes a pass from the start of `text`; nothing where another action stands there, or none.
  [[nodiscard]] std::optional<TorchAction> take(std::string_view& text) const {
    TorchAction action;
    action.subject = take_short_number(text);
    if (action.subject < 0 || text.empty() || text[0] < 'A' || text[0] > 'Z') return std::nullopt;
    const std::optional<OpKind> kind = letters_[static_cast<std::size_t>(text[0] - 'A')];
    text.remove_prefix(1);
    action.number = take_short_number(text);
    if (!kind || action.number < 0) return std::nullopt;
    action.kind = *kind;
    return action;
  }

 private:
  std::array<std::optional<OpKind>, 26> letters_;  ///< passes that the alphabet writes as one letter
};

/// A cell of a PyTorch file: an action, a wait for one, or an overlapped pair; or empty ones in a row.
struct TorchCell {
  std::string_view text = {};
  std::array<TorchAction, 2> scanned = {};
  std::uint8_t count = 0;  ///< of actions
  bool waits = false;      ///< WAIT_SEND_F, WAIT_SEND_B or WAIT_REDUCE_GRAD; the action is what it waits for
  int empty = 0;           ///< how many cells without text these are
  int row = 0;             ///< from 1
  int column = 0;          ///< of the first, from 1

  [[nodiscard]] std::span<const TorchAction> actions() const { return {scanned.data(), count}; }
};

/// The actions of one cell, resolved.
struct CellActions {
  std::array<Action, 2> items;
  std::size_t count = 0;
};

/// The cells of a PyTorch file, a row per rank, and the pipeline that they imply.
class TorchCells {
 public:
  /// Errors: bad_file with row, cell, found and expected; also for more empty cells or lines than can be
  /// meant.
  /// Requires: `text` outlives the cells.
  [[nodiscard]] static Expected<TorchCells> read(std::string_view text, const std::string& file,
                                                 const Alphabet& alphabet);

  [[nodiscard]] const std::vector<std::vector<TorchCell>>& rows() const { return rows_; }
  /// How many cells there are, empty ones in a row being one.
  [[nodiscard]] std::size_t size() const;

  /// Ranks are rows, a stage is placed where it appears, microbatches and stages count from 0 without gap.
  /// Errors: bad_file for a stage in two rows or a gap.
  [[nodiscard]] Expected<Pipeline> infer_pipeline() const;

  /// The actions of a cell.
  /// Errors: bad_file for a transfer that leads nowhere.
  [[nodiscard]] Expected<CellActions> resolve(const Pipeline& pipeline, const TorchCell& cell) const;

  /// The same error, at the place of a cell.
  [[nodiscard]] tl::unexpected<Error> at(const TorchCell& cell, Error error) const;

 private:
  /// Some rows of a file.
  struct Part {
    std::string_view text;
    int lines_before = 0;
  };

  TorchCells(std::string file, const Alphabet& alphabet);
  [[nodiscard]] static std::vector<Part> parts_of(std::string_view text);
  [[nodiscard]] static Expected<TorchCells> read_whole(std::string_view text, const std::string& file,
                                                       const Alphabet& alphabet);
  Expected<void> read_rows(CsvReader reader);
  /// The next cells of a row, as far as each is a pass and nothing else.
  void add_passes(CsvReader& reader);
  /// `is_own`: the text is of the file, not of the reader.
  Expected<void> add(std::string_view text, bool is_own, const CsvReader& reader);
  Expected<void> add_empty(const CsvReader& reader);

  std::string file_;
  Alphabet alphabet_;
  PassReader passes_;
  int empty_ = 0;  ///< cells
  std::vector<std::vector<TorchCell>> rows_;
  std::deque<std::string> quoted_;  ///< texts of quoted cells, which are not in the file as they read
};

/// A cell without the blanks around it; PyTorch's reader strips cells too.
[[nodiscard]] std::string_view stripped(std::string_view text);

}  // namespace ppsim
