#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace ppsim::cli {

/// A time limit: from a millisecond to 10^6 seconds, and no NaN, which every comparison lets through.
[[nodiscard]] inline CLI::Validator seconds() {
  return {[](const std::string& text) {
            double value = 0;
            const bool fits = CLI::detail::lexical_cast(text, value) && value >= 0.001 && value <= 1e6;
            return fits ? std::string() : "Value " + text + " not in range [0.001 - 1e+06]";
          },
          "SECONDS in [0.001 - 1e+06]"};
}

}  // namespace ppsim::cli
