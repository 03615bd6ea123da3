#include <nanobind/stl/string.h>

#include <string_view>

#include "binding.hpp"
#include "ppsim/core/ir/overflow.hpp"

namespace ppsim::python {
namespace {

/// A message may quote a part of a text, which can end within a character.
nb::object unicode(const std::string& text) {
  return nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

/// Raises what ppsim/errors.py makes of the fields of an Error.
void raise_in_python(const Error& error) {
  const ErrorPlace& place = error.place;
  const std::string_view code = error_code_name(error.code);
  const nb::object exception =
      nb::module_::import_("ppsim.errors")
          .attr("from_core")(nb::str(code.data(), code.size()), unicode(error.message), unicode(place.file),
                             place.row, place.column, unicode(place.found), unicode(place.expected));
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
}

}  // namespace

namespace {

/// The value, which Python casts to a T. Errors: throws CoreError.
template <class T>
T given_value(nb::handle value, const std::string& name, const char* expected) {
  T result{};
  if (nb::try_cast(value, result)) return result;
  throw CoreError({ErrorCode::bad_argument,
                   name + " is of another type",
                   {.found = nb::cast<std::string>(value.type().attr("__name__")), .expected = expected}});
}

}  // namespace

std::string given_text(const GivenText& given, const std::string& name) {
  return given_value<std::string>(given.value, name, "a text");
}

int given_count(const GivenCount& given, const std::string& name) {
  constexpr const char* kCounts = "a whole number of 32 bits";
  if (int count = 0; nb::try_cast(given.value, count)) return count;
  const nb::object whole = nb::steal(PyNumber_Index(given.value.ptr()));
  if (!whole.is_valid() && PyErr_ExceptionMatches(PyExc_TypeError) == 0) nb::raise_python_error();
  if (!whole.is_valid()) {
    PyErr_Clear();
    return given_value<int>(given.value, name, kCounts);
  }
  const nb::object digits = nb::steal(PyObject_Str(whole.ptr()));
  if (!digits.is_valid()) PyErr_Clear();  // more than Python prints
  const std::string found =
      digits.is_valid() ? nb::cast<std::string>(digits) : "a number of very many digits";
  throw CoreError(
      {ErrorCode::bad_argument, name + " is out of range", {.found = found, .expected = kCounts}});
}

void bind_errors(nb::module_&) {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const CoreError& core) {
      raise_in_python(core.error());
    } catch (const Overflow& sum) {
      raise_in_python(
          {ErrorCode::bad_argument,
           "the costs or sizes add up to more than fits in 64 bits",
           {.found = sum.what(), .expected = "at most 9223372036854775807 ns (292 years) or bytes in all"}});
    }
  });
}

}  // namespace ppsim::python
