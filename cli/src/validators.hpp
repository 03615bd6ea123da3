#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace ppsim::cli {

/// A number above 0, or from 0 on; finite.
[[nodiscard]] CLI::Validator positive();
[[nodiscard]] CLI::Validator not_negative();
/// A number between both, or one of them.
[[nodiscard]] CLI::Validator between(double least, double most);
/// A time limit: from a millisecond to 10^6 seconds.
[[nodiscard]] CLI::Validator seconds();
/// A whole number between both, written as one.
[[nodiscard]] CLI::Validator whole(std::int64_t least, std::int64_t most);
/// One from 1 on that an int holds.
[[nodiscard]] CLI::Validator count();

/// For a file to write, in a format that its suffix says: one of these, in letters of either case. Whatever
/// has none, such as `-` and /dev/stdout, gets the first one.
[[nodiscard]] CLI::Validator output_file(std::vector<std::string> suffixes);
/// The same beside the result, which has stdout to itself.
[[nodiscard]] CLI::Validator side_file(std::vector<std::string> suffixes);
/// For --trace, whose format nothing but the suffix says.
[[nodiscard]] CLI::Validator trace_file();
/// Whether an option has one of these three.
[[nodiscard]] bool is_output_file(const CLI::Option& option);

}  // namespace ppsim::cli
