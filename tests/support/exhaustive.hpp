#pragma once

#include <cstdlib>
#include <string_view>

namespace ppsim::test {

/// Whether PPSIM_EXHAUSTIVE=1 asks for everything where a test otherwise takes a part.
inline bool exhaustive() {
  const char* value = std::getenv("PPSIM_EXHAUSTIVE");
  return value != nullptr && std::string_view(value) == "1";
}

}  // namespace ppsim::test
