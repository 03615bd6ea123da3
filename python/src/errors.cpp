#include <nanobind/stl/string.h>

#include <string_view>

#include "binding.hpp"

namespace ppsim::python {
namespace {

/// Raises what ppsim/errors.py makes of the fields of an Error.
void raise_in_python(const Error& error) {
  const ErrorPlace& place = error.place;
  const std::string_view code = error_code_name(error.code);
  const nb::object exception =
      nb::module_::import_("ppsim.errors")
          .attr("from_core")(nb::str(code.data(), code.size()), error.message, place.file, place.row,
                             place.column, place.found, place.expected);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
}

}  // namespace

void bind_errors(nb::module_&) {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const CoreError& core) {
      raise_in_python(core.error());
    }
  });
}

}  // namespace ppsim::python
