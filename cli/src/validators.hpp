#pragma once

#include <CLI/CLI.hpp>

namespace ppsim::cli {

/// A number above 0, or from 0 on; finite.
[[nodiscard]] CLI::Validator positive();
[[nodiscard]] CLI::Validator not_negative();
/// A number between both, or one of them.
[[nodiscard]] CLI::Validator between(double least, double most);
/// A time limit: from a millisecond to 10^6 seconds.
[[nodiscard]] CLI::Validator seconds();
/// For files beside the result, which has stdout to itself.
[[nodiscard]] CLI::Validator not_stdout();
/// For --trace, so that a wrong suffix is found before the work is done.
[[nodiscard]] CLI::Validator trace_path();

}  // namespace ppsim::cli
