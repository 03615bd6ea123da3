#include "block_text.hpp"

#include <algorithm>
#include <cctype>

#include "ppsim/core/ir/error.hpp"

namespace ppsim::schedules {
namespace {

class BlockReader {
 public:
  BlockReader(std::string_view text, const FormulaNames& names) : text_(text), names_(names) {}

  tl::expected<BlockSlots, TextError> read() {
    BlockSlots slots;
    for (skip(); column_ <= text_.size(); skip()) {
      const std::size_t at = column_;
      PPSIM_ASSIGN_OR_RETURN(auto key, label());
      PPSIM_ASSIGN_OR_RETURN(auto values, peek() == '[' ? list() : formula());
      if (!slots.emplace(key, std::move(values)).second) {
        return error(at, key.first + std::to_string(key.second) + " is given twice");
      }
      skip();
      if (column_ > text_.size()) break;
      if (peek() != ';') return tl::unexpected(expected_at(text_, column_, "; or the end"));
      ++column_;
    }
    return slots;
  }

 private:
  static tl::unexpected<TextError> error(std::size_t column, std::string message) {
    return tl::unexpected(TextError{column, std::move(message)});
  }
  [[nodiscard]] char peek() const { return column_ > text_.size() ? '\0' : text_[column_ - 1]; }
  [[nodiscard]] bool is_digit_at(std::size_t column) const {
    return column <= text_.size() && std::isdigit(static_cast<unsigned char>(text_[column - 1])) != 0;
  }
  [[nodiscard]] bool is_digit() const { return is_digit_at(column_); }
  void skip() { column_ = skip_blanks(text_, column_); }

  tl::expected<std::pair<char, int>, TextError> label() {
    const char kind = peek();
    if (std::string_view("FBIW").find(kind) == std::string_view::npos || kind == '\0') {
      return tl::unexpected(expected_at(text_, column_, "F, B, I or W"));
    }
    const std::size_t at = ++column_;
    int chunk = 0;
    while (is_digit()) chunk = std::min(names_.v, 10 * chunk + (text_[column_++ - 1] - '0'));
    if (column_ == at && names_.v > 1) return tl::unexpected(expected_at(text_, at, "the number of a chunk"));
    if (chunk >= names_.v) {
      return error(at, "chunks are numbered from 0 to " + std::to_string(names_.v - 1));
    }
    skip();
    if (peek() != ':') return tl::unexpected(expected_at(text_, column_, ":"));
    ++column_;
    skip();
    return std::pair(kind, chunk);
  }

  tl::expected<RankSlots, TextError> formula() {
    RankSlots values;
    const std::size_t at = column_;
    for (int rank = 0; rank < names_.p; ++rank) {
      column_ = at;
      names_.i = rank;
      PPSIM_ASSIGN_OR_RETURN(const auto value, read_formula(text_, column_, names_));
      values.push_back(value);
    }
    return values;
  }

  /// Formulas, in which blanks may stand, could not be told apart: a list holds numbers.
  tl::expected<RankSlots, TextError> list() {
    RankSlots values;
    const std::size_t at = column_++;
    for (skip(); peek() != ']'; skip()) {
      if (!is_digit() && peek() != '-') return tl::unexpected(expected_at(text_, column_, "a number or ]"));
      std::size_t end = column_ + (peek() == '-' ? 1 : 0);
      if (!is_digit_at(end)) return tl::unexpected(expected_at(text_, end, "a digit"));
      while (is_digit_at(end)) ++end;
      PPSIM_ASSIGN_OR_RETURN(const auto value, read_formula(text_.substr(0, end - 1), column_, names_));
      values.push_back(value);
    }
    ++column_;
    if (static_cast<int>(values.size()) == names_.p) return values;
    return error(at, "expected a slot for each of " + std::to_string(names_.p) + " ranks, found " +
                         std::to_string(values.size()));
  }

  std::string_view text_;
  FormulaNames names_;
  std::size_t column_ = 1;
};

}  // namespace

tl::expected<BlockSlots, TextError> read_block_slots(std::string_view text, const FormulaNames& names) {
  return BlockReader(text, names).read();
}

}  // namespace ppsim::schedules
