#pragma once

#include <sstream>
#include <string>

namespace ppsim {

/// What `<<` writes of a value.
template <class T>
[[nodiscard]] std::string as_text(const T& value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

}  // namespace ppsim
