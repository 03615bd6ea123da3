#include "slot_formula.hpp"

#include <cctype>
#include <cstdint>

#include "ppsim/core/ir/error.hpp"

namespace ppsim::schedules {
namespace {

constexpr std::int64_t kLargest = 1 << 20;
constexpr int kDeepest = 64;

std::int64_t floor_division(std::int64_t a, std::int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

class FormulaReader {
 public:
  using Result = tl::expected<std::int64_t, TextError>;

  FormulaReader(std::string_view text, std::size_t column, const FormulaNames& names)
      : text_(text), column_(skip_blanks(text, column)), names_(names) {}

  /// A sum of products.
  Result sum() {
    Result total = product();
    while (total && (peek() == '+' || peek() == '-')) {
      const bool plus = take() == '+';
      Result next = product();
      if (!next) return next;
      total = checked(plus ? *total + *next : *total - *next);
    }
    return total;
  }
  [[nodiscard]] std::size_t column() const { return column_; }

 private:
  [[nodiscard]] char peek() const { return column_ > text_.size() ? '\0' : text_[column_ - 1]; }
  [[nodiscard]] bool is_digit() const { return std::isdigit(static_cast<unsigned char>(peek())) != 0; }
  [[nodiscard]] bool is_name() const { return (peek() == 'i' && names_.i) || peek() == 'p' || peek() == 'v'; }
  char take() {
    const char taken = peek();
    column_ = skip_blanks(text_, column_ + 1);
    return taken;
  }
  [[nodiscard]] Result checked(std::int64_t value) const {
    if (value >= -kLargest && value <= kLargest) return value;
    return tl::unexpected(TextError{column_, "the number is larger than " + std::to_string(kLargest)});
  }

  Result product() {
    Result total = factor();
    while (total) {
      char sign = peek();
      if (sign == '*' || sign == '/' || sign == '%') {
        take();
      } else if (sign == '(' || is_name()) {
        sign = '*';
      } else {
        break;
      }
      const std::size_t at = column_;
      Result next = factor();
      if (!next) return next;
      if (sign != '*' && *next == 0) return tl::unexpected(TextError{at, "division by zero"});
      const std::int64_t quotient = sign == '*' ? 0 : floor_division(*total, *next);
      if (sign == '*') total = checked(*total * *next);
      if (sign == '/') total = quotient;
      if (sign == '%') total = *total - quotient * *next;
    }
    return total;
  }

  Result factor() {
    if (peek() == '-') {
      take();
      const Result value = factor();
      return value ? Result(-*value) : value;
    }
    if (is_digit()) return number();
    if (peek() == '(') return parenthesis();
    if (!is_name()) return tl::unexpected(expected_at(text_, column_, expected()));
    const char name = take();
    return name == 'i' ? *names_.i : name == 'p' ? names_.p : names_.v;
  }
  [[nodiscard]] std::string expected() const {
    return names_.i ? "a number, i, p, v or (" : "a number, p, v or (";
  }

  Result parenthesis() {
    const std::size_t opened = column_;
    take();
    if (++depth_ > kDeepest) return tl::unexpected(TextError{opened, "too many parentheses"});
    Result value = sum();
    --depth_;
    if (value && take() != ')') value = tl::unexpected(TextError{opened, "( without )"});
    return value;
  }

  Result number() {
    std::int64_t value = 0;
    while (is_digit() && value <= kLargest) {
      value = 10 * value + (peek() - '0');
      ++column_;
    }
    Result result = checked(value);
    column_ = skip_blanks(text_, column_);
    return result;
  }

  std::string_view text_;
  std::size_t column_;
  FormulaNames names_;
  int depth_ = 0;
};

}  // namespace

std::size_t skip_blanks(std::string_view text, std::size_t column) {
  while (column <= text.size() && std::isspace(static_cast<unsigned char>(text[column - 1])) != 0) ++column;
  return column;
}

TextError expected_at(std::string_view text, std::size_t column, const std::string& what) {
  const std::string found =
      column > text.size() ? "the end" : "\"" + std::string(text.substr(column - 1, 1)) + "\"";
  return {column, "expected " + what + ", found " + found};
}

tl::expected<int, TextError> read_formula(std::string_view text, std::size_t& column,
                                          const FormulaNames& names) {
  FormulaReader reader(text, column, names);
  PPSIM_ASSIGN_OR_RETURN(const auto value, reader.sum());
  column = reader.column();
  return static_cast<int>(value);
}

}  // namespace ppsim::schedules
