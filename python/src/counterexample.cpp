#include "counterexample.hpp"

#include <nanobind/stl/string.h>

#include "output/counterexample_json.hpp"

namespace ppsim::python {
namespace {

nb::object object_of(const cli::Json& json);

struct ToObject {
  nb::object operator()(std::nullptr_t) const { return nb::none(); }
  nb::object operator()(const cli::Json::Array& items) const {
    nb::list list;
    for (const cli::Json& item : items) list.append(object_of(item));
    return list;
  }
  nb::object operator()(const cli::Json::Object& members) const {
    nb::dict dict;
    for (const auto& [name, value] : members) dict[name.c_str()] = object_of(value);
    return dict;
  }
  nb::object operator()(const auto& value) const { return nb::cast(value); }
};

nb::object object_of(const cli::Json& json) { return std::visit(ToObject(), json.value()); }

}  // namespace

nb::object counterexample_data(const Program& program, const Counterexample& counterexample) {
  return object_of(cli::counterexample_json(program, counterexample));
}

}  // namespace ppsim::python
