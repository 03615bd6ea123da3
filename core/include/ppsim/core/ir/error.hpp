#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace ppsim {

/// The kind of mistake that an Error reports; the command line maps each to an exit code.
enum class ErrorCode : std::uint8_t {
  bad_argument,  ///< a parameter, name or option out of its domain
  bad_file,      ///< a file that cannot be read as what it should be
  does_not_fit,  ///< nothing allowed keeps within the memory that there is
  ill_formed,    ///< an IR that breaks its rules (missing, doubled or misordered actions)
  deadlock,      ///< a run that cannot finish; the message names who waits for whom
  refused,       ///< a run without the certificate that it needs
  io,            ///< the operating system said no
};

/// Stable snake_case name of a code, for JSON.
[[nodiscard]] std::string_view error_code_name(ErrorCode code);

/// Where in a file an error is; fields that do not apply stay empty or 0.
struct ErrorPlace {
  std::string file = {};
  int row = 0;     ///< 1-based
  int column = 0;  ///< 1-based: a cell of a CSV, a character of a JSON file, an item of a row
  std::string found = {};
  std::string expected = {};

  friend bool operator==(const ErrorPlace&, const ErrorPlace&) = default;
};

/// A mistake of the caller.
struct Error {
  ErrorCode code = ErrorCode::bad_argument;
  std::string message;
  ErrorPlace place = {};

  friend bool operator==(const Error&, const Error&) = default;
};

/// "file:row:column: message (found ..., expected ...)".
std::ostream& operator<<(std::ostream& out, const Error& error);
[[nodiscard]] std::string to_string(const Error& error);

template <class T>
using Expected = tl::expected<T, Error>;

[[nodiscard]] inline tl::unexpected<Error> make_error(ErrorCode code, std::string message,
                                                      ErrorPlace place = {}) {
  return tl::unexpected<Error>(Error{code, std::move(message), std::move(place)});
}

}  // namespace ppsim

// A name and a declaration cannot stand in parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define PPSIM_JOIN_TOKENS(left, right) left##right
#define PPSIM_UNIQUE_NAME(prefix, line) PPSIM_JOIN_TOKENS(prefix, line)

/// Returns the error of an `Expected` from the enclosing function, if it holds one.
#define PPSIM_RETURN_IF_ERROR(...) \
  PPSIM_RETURN_IF_ERROR_AS(PPSIM_UNIQUE_NAME(outcome_, __LINE__), (__VA_ARGS__))
#define PPSIM_RETURN_IF_ERROR_AS(outcome, expression)                                      \
  do {                                                                                     \
    auto&& outcome = expression;                                                           \
    if (!outcome) return tl::unexpected(std::forward<decltype(outcome)>(outcome).error()); \
  } while (false)

/// Declares a variable with the value of an `Expected`, or returns its error from the enclosing function:
/// `PPSIM_ASSIGN_OR_RETURN(const Program program, read_program(path));`
#define PPSIM_ASSIGN_OR_RETURN(declaration, ...) \
  PPSIM_ASSIGN_OR_RETURN_AS(PPSIM_UNIQUE_NAME(outcome_, __LINE__), declaration, (__VA_ARGS__))
#define PPSIM_ASSIGN_OR_RETURN_AS(outcome, declaration, expression)                      \
  auto&& outcome = expression;                                                           \
  if (!outcome) return tl::unexpected(std::forward<decltype(outcome)>(outcome).error()); \
  declaration = *std::forward<decltype(outcome)>(outcome)
// NOLINTEND(bugprone-macro-parentheses)
