#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ppsim/core/ir/error.hpp"

namespace ppsim::planner {

/// A finding at one place of a file, for its reviewer.
struct Annotation {
  std::string file;
  int row = 0;           ///< 1-based; 0: the whole file
  int first_column = 0;  ///< 1-based, in characters; 0: the whole row
  int last_column = 0;
  std::string title;
  std::string message;

  friend bool operator==(const Annotation&, const Annotation&) = default;
};

/// An error, at the cell of a CSV or the character that it names. `text`: of the file, where it could be
/// read.
[[nodiscard]] Annotation annotation_of(const Error& error, const std::string& file, std::string_view text);

/// A refuted property: one for each line of its explanation that begins with a rank and an action, at the
/// first such cell in the row of that rank; else, and for what is no CSV, one for the file. The first has all
/// lines.
[[nodiscard]] std::vector<Annotation> annotations_of(const std::string& title,
                                                     std::span<const std::string> lines,
                                                     const std::string& file, std::string_view text);

/// `::error file=...,line=...::...`, a workflow command of GitHub, without the end of the line.
[[nodiscard]] std::string github_command(const Annotation& annotation);

}  // namespace ppsim::planner

namespace ppsim {
using planner::Annotation;
using planner::annotation_of;
using planner::annotations_of;
using planner::github_command;
}  // namespace ppsim
