#pragma once

#include <sstream>
#include <string>

namespace ppsim {

/// What the parts print, one after the other.
template <class... Parts>
[[nodiscard]] std::string concatenated(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

}  // namespace ppsim
