#pragma once

#include <sstream>
#include <string>

namespace ppsim {

/// A value as `<<` prints it.
template <class T>
[[nodiscard]] std::string as_text(const T& value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

}  // namespace ppsim
