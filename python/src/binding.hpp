#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <initializer_list>
#include <string>
#include <utility>

#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/lowering/lowering.hpp"

namespace ppsim::python {

namespace nb = nanobind;
using namespace nb::literals;

/// Values that Python gets as a dictionary of fields, and lists of them.
using Data = nb::typed<nb::dict, nb::str, nb::any>;
using DataList = nb::typed<nb::list, Data>;

/// One field of a dictionary.
struct Field {
  template <class T>
  Field(const char* key, T&& of) : name(key), value(nb::cast(std::forward<T>(of))) {}

  const char* name;
  nb::object value;
};

/// A dictionary of these fields. Requires: the GIL.
[[nodiscard]] inline Data data(std::initializer_list<Field> fields) {
  nb::dict result;
  for (const Field& field : fields) result[field.name] = field.value;
  return Data(result);
}

/// An Error that goes to Python, where it becomes a ppsim.Error or what is derived from it.
class CoreError : public std::exception {
 public:
  explicit CoreError(Error error) : error_(std::move(error)) {}
  [[nodiscard]] const Error& error() const { return error_; }
  [[nodiscard]] const char* what() const noexcept override { return error_.message.c_str(); }

 private:
  Error error_;
};

/// The value. Errors: throws CoreError.
template <class T>
T value_of(Expected<T> expected) {
  if (!expected) throw CoreError(std::move(expected).error());
  if constexpr (!std::is_void_v<T>) return *std::move(expected);
}

/// A caller's argument where a text is needed, which may be anything.
struct GivenText {
  nb::handle value;
};

/// The text that was given as `name`. Errors: throws CoreError for what is none. Requires: the GIL.
[[nodiscard]] std::string given_text(const GivenText& given, const std::string& name);

/// A caller's argument where a whole number is needed, which may be anything.
struct GivenCount {
  nb::handle value;
};

/// The number that was given as `name`. Errors: throws CoreError for what is none. Requires: the GIL.
[[nodiscard]] int given_count(const GivenCount& given, const std::string& name);

/// Nothing where none is named. Errors: throws CoreError naming the policies there are.
[[nodiscard]] std::optional<CommunicatorPolicy> asked_policy(const std::optional<std::string>& name);

/// Asked by long work, in any thread, whether to give up.
using Stopped = std::function<bool()>;

/// Returns the result of `work(stopped)`, which runs in another thread without the GIL; Ctrl-C asks it to
/// stop, and is raised when it has. Requires: the GIL.
template <class Work>
auto interruptible(Work work) {
  constexpr auto kBetweenLooks = std::chrono::milliseconds(20);
  std::atomic<bool> stop = false;
  std::exception_ptr interrupt;
  auto result = std::async(std::launch::async, [&] { return work(Stopped([&] { return stop.load(); })); });
  {
    const nb::gil_scoped_release release;
    while (result.wait_for(kBetweenLooks) != std::future_status::ready) {
      const nb::gil_scoped_acquire acquire;
      if (stop || PyErr_CheckSignals() == 0) continue;
      interrupt = std::make_exception_ptr(nb::python_error());
      stop = true;
    }
  }
  if (!interrupt) return result.get();
  result.wait();
  std::rethrow_exception(interrupt);
}

/// Each adds one file's share to the module.
void bind_errors(nb::module_& module);
void bind_ir(nb::module_& module);
void bind_schedules(nb::module_& module);
void bind_costs(nb::module_& module);
void bind_simulation(nb::module_& module);
void bind_verification(nb::module_& module);
void bind_all_microbatches(nb::module_& module);
void bind_search(nb::module_& module);
void bind_execution(nb::module_& module);
void bind_targets(nb::module_& module);
void bind_annotations(nb::module_& module);
void bind_plan(nb::module_& module);
void bind_study(nb::module_& module);
void bind_arrow(nb::module_& module);

}  // namespace ppsim::python

template <>
struct nanobind::detail::type_caster<ppsim::python::GivenText> {
  NB_TYPE_CASTER(ppsim::python::GivenText, const_name("str"))

  bool from_python(handle source, std::uint8_t, cleanup_list*) noexcept {
    value.value = source;
    return true;
  }
};

template <>
struct nanobind::detail::type_caster<ppsim::python::GivenCount> {
  NB_TYPE_CASTER(ppsim::python::GivenCount, const_name("int"))

  bool from_python(handle source, std::uint8_t, cleanup_list*) noexcept {
    value.value = source;
    return true;
  }
};
