#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string_view>

namespace ppsim::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Stops the fuzzer with the input that broke the rule.
inline void require(bool holds, const char* rule) {
  if (holds) return;
  std::cerr << "broken: " << rule << '\n';
  std::abort();
}

/// An error of a reader must say something.
template <class T>
bool read(const T& value) {
  if (!value) require(!value.error().message.empty(), "an error has a message");
  return value.has_value();
}

}  // namespace ppsim::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
