// The faults of a file, as GitHub shows them.

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "binding.hpp"
#include "ppsim/planner/annotations.hpp"

namespace ppsim::python {
namespace {

/// As ppsim.Error has them; the column is a cell of a CSV.
struct ErrorWords {
  std::string message, code, file, found, expected;
  int row = 0, column = 0;
};

ErrorCode code_named(const std::string& name) {
  using enum ErrorCode;
  for (const ErrorCode code : {bad_argument, bad_file, does_not_fit, ill_formed, deadlock, refused, io}) {
    if (error_code_name(code) == name) return code;
  }
  return refused;
}

std::string of_error(const ErrorWords& words, const std::string& text) {
  const Error error = {code_named(words.code),
                       words.message,
                       {.file = words.file,
                        .row = words.row,
                        .column = words.column,
                        .found = words.found,
                        .expected = words.expected}};
  return github_command(annotation_of(error, words.file, text));
}

std::vector<std::string> of_lines(const std::string& title, const std::vector<std::string>& lines,
                                  const std::string& file, const std::string& text) {
  std::vector<std::string> commands;
  for (const Annotation& annotation : annotations_of(title, lines, file, text))
    commands.push_back(github_command(annotation));
  return commands;
}

}  // namespace

void bind_annotations(nb::module_& module) {
  nb::class_<ErrorWords>(module, "ErrorWords", "The fields of a ppsim.Error.")
      .def(nb::init<>())
      .def_rw("message", &ErrorWords::message)
      .def_rw("code", &ErrorWords::code)
      .def_rw("file", &ErrorWords::file)
      .def_rw("found", &ErrorWords::found)
      .def_rw("expected", &ErrorWords::expected)
      .def_rw("row", &ErrorWords::row)
      .def_rw("column", &ErrorWords::column);
  module.def("github_error", &of_error, "error"_a, "text"_a);
  module.def("github_lines", &of_lines, "title"_a, "lines"_a, "file"_a, "text"_a);
}

}  // namespace ppsim::python
