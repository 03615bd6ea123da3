#pragma once

#include <string>
#include <string_view>

#include "ppsim/core/ir/error.hpp"

namespace ppsim::planner {

/// The whole file; `-` is standard input.
/// Errors: bad_file when it cannot be opened or read, or is a directory.
[[nodiscard]] Expected<std::string> read_text_file(const std::string& path);

/// Checks that write_text_file() can be expected to succeed, before work that takes long. The file stays as
/// it is. Errors: io naming the path and the reason.
[[nodiscard]] Expected<void> check_writable(const std::string& path);

/// Replaces the file in one step, so that an interrupted program leaves the old one or the new one; `-` is
/// standard output.
/// Errors: io naming the path and the reason.
[[nodiscard]] Expected<void> write_text_file(const std::string& path, std::string_view text);

/// Adds the text to what the file has; it need not be there.
/// Errors: io naming the path and the reason.
[[nodiscard]] Expected<void> append_text_file(const std::string& path, std::string_view text);

/// Where links lead in the end, which may be to nothing yet; another path as it is.
[[nodiscard]] std::string behind_links(const std::string& path);

/// The extension of a file's name in small letters, such as `.csv`; empty: none.
[[nodiscard]] std::string suffix_of(const std::string& path);

}  // namespace ppsim::planner

namespace ppsim {
using planner::append_text_file;
using planner::behind_links;
using planner::check_writable;
using planner::read_text_file;
using planner::suffix_of;
using planner::write_text_file;
}  // namespace ppsim
