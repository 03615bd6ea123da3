#include "ppsim/core/ir/error.hpp"

#include <sstream>

#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/text/as_text.hpp"

namespace ppsim {

void fail_check(const char* expression, const char* file, int line, const std::string& note) {
  std::ostringstream out;
  out << file << ':' << line << ": check failed: " << expression;
  if (!note.empty()) out << " (" << note << ')';
  throw CheckFailure(out.str());
}

std::string_view error_code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::bad_argument:
      return "bad_argument";
    case ErrorCode::bad_file:
      return "bad_file";
    case ErrorCode::does_not_fit:
      return "does_not_fit";
    case ErrorCode::ill_formed:
      return "ill_formed";
    case ErrorCode::deadlock:
      return "deadlock";
    case ErrorCode::refused:
      return "refused";
    case ErrorCode::io:
      return "io";
  }
  return "unknown";
}

std::ostream& operator<<(std::ostream& out, const Error& error) {
  const ErrorPlace& place = error.place;
  if (!place.file.empty()) out << place.file << ':';
  if (place.row > 0) out << place.row << ':';
  if (place.column > 0) out << place.column << ':';
  if (!place.file.empty() || place.row > 0) out << ' ';
  out << error.message;
  if (!place.found.empty() || !place.expected.empty()) {
    out << " (found " << (place.found.empty() ? "nothing" : place.found);
    if (!place.expected.empty()) out << ", expected " << place.expected;
    out << ')';
  }
  return out;
}

std::string to_string(const Error& error) { return as_text(error); }

}  // namespace ppsim
