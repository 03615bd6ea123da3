#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace ppsim::schedules {

/// The variables of a formula.
struct FormulaNames {
  std::optional<int> i = {};  ///< rank; empty where the formula has none
  int p = 1;                  ///< ranks
  int v = 1;                  ///< chunks per rank
};

/// Where a text is not what it should be; columns count from 1.
struct TextError {
  std::size_t column = 1;
  std::string message;
};

/// A whole number from a formula of numbers, i, p and v with + - * / % and parentheses, where a product may
/// be written without its sign (2i, 3(p-1)); / rounds down and % is never negative. Reads from `column` on,
/// as far as the formula goes, and leaves `column` behind it. Errors: a syntax error with what is expected
/// and found, a division by zero, a number beyond +-2^20.
[[nodiscard]] tl::expected<int, TextError> read_formula(std::string_view text, std::size_t& column,
                                                        const FormulaNames& names);

/// The first column from `column` on that is no blank; one past the text if all are blank.
[[nodiscard]] std::size_t skip_blanks(std::string_view text, std::size_t column);

/// "expected X, found "c"" or "expected X, found the end" at a column.
[[nodiscard]] TextError expected_at(std::string_view text, std::size_t column, const std::string& what);

}  // namespace ppsim::schedules
