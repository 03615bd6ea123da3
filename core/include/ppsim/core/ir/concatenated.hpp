#pragma once

#include <sstream>
#include <string>

namespace ppsim {

/// One string of all parts, each as << prints it.
template <class... Parts>
[[nodiscard]] std::string concatenated(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

}  // namespace ppsim
