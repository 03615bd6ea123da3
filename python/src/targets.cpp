// Releases of PyTorch and JaxPP that schedules are for.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "binding.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/planner/files.hpp"
#include "ppsim/planner/targets.hpp"

namespace ppsim::python {
namespace {

/// A text as the release would load it.
Ir loaded(const std::string& text, const std::string& name, const std::string& target,
          const std::optional<std::string>& communicators) {
  const Target release = value_of(target_named(target));
  const CommunicatorPolicy policy = value_of(communicators_for(release, asked_policy(communicators)));
  return value_of(ir_from_text(text, name, {release.dialect, policy, &release}));
}

Ir loaded_file(const std::string& path, const std::string& target,
               const std::optional<std::string>& communicators) {
  return loaded(value_of(read_text_file(path)), path, target, communicators);
}

/// The Program that the release would make of it.
Program program_for(const Ir& ir, const std::string& target,
                    const std::optional<std::string>& communicators) {
  const Target release = value_of(target_named(target));
  const CommunicatorPolicy policy = value_of(communicators_for(release, asked_policy(communicators)));
  value_of(check_runs(release, ir));
  const auto* program = std::get_if<Program>(&ir);
  if (program == nullptr) {
    const Schedule run = value_of(as_run(release, std::get<Schedule>(ir)));
    return value_of(lower(run, own_lowering(release, policy, ir)));
  }
  value_of(check_communicators(release, *program, policy));
  return *program;
}

std::string file_text(const Ir& ir, const std::string& target, const std::string& path) {
  return value_of(text_for(value_of(target_named(target)), ir, path));
}

}  // namespace

void bind_targets(nb::module_& module) {
  const auto free = nb::call_guard<nb::gil_scoped_release>();
  module.def("target_names", [] {
    std::vector<std::string> names;
    for (const Target& target : targets()) names.emplace_back(target.name);
    return names;
  });
  module.def("load_for", &loaded, "text"_a, "name"_a, "target"_a, "communicators"_a.none(), free);
  module.def("load_file_for", &loaded_file, "path"_a, "target"_a, "communicators"_a.none(), free);
  module.def("program_for", &program_for, "value"_a, "target"_a, "communicators"_a.none(), free);
  module.def("text_for", &file_text, "value"_a, "target"_a, "path"_a, free);
}

}  // namespace ppsim::python
