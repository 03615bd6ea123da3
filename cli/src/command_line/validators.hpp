#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "options.hpp"

namespace ppsim::cli {

/// A number above 0, or from 0 on; finite.
[[nodiscard]] Validator positive();
[[nodiscard]] Validator not_negative();
/// A number between both, or one of them.
[[nodiscard]] Validator between(double least, double most);
/// A time limit: from a millisecond to 10^6 seconds.
[[nodiscard]] Validator seconds();
/// A whole number between both, written as one.
[[nodiscard]] Validator whole(std::int64_t least, std::int64_t most);
/// One from 1 on that an int holds.
[[nodiscard]] Validator count();

/// One of these words.
[[nodiscard]] Validator one_of(const std::vector<std::string>& words);

/// For a file to write, in a format that its suffix says: one of these, in letters of either case. Whatever
/// has none, such as `-` and /dev/stdout, gets the first one.
[[nodiscard]] Validator output_file(std::vector<std::string> suffixes);
/// The same beside the result, which has stdout to itself.
[[nodiscard]] Validator side_file(std::vector<std::string> suffixes);
/// For --trace, whose format nothing but the suffix says.
[[nodiscard]] Validator trace_file();
/// Whether an option has one of these three.
[[nodiscard]] bool is_output_file(const ParsedOption& option);

}  // namespace ppsim::cli
