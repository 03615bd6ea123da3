#pragma once

#include <stdexcept>
#include <string>

namespace ppsim {

/// A broken invariant of ppsim itself, never of its input.
class CheckFailure : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void fail_check(const char* expression, const char* file, int line, const std::string& note);

}  // namespace ppsim

/// Throws CheckFailure with expression and location; always on.
#define PPSIM_CHECK(expression, note)                               \
  do {                                                              \
    if (!(expression)) {                                            \
      ::ppsim::fail_check(#expression, __FILE__, __LINE__, (note)); \
    }                                                               \
  } while (false)
