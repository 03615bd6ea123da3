// The module ppsim._core: the C++ libraries as they are. What a user sees is in python/ppsim.

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "binding.hpp"
#include "effects.hpp"
#include "program.hpp"

namespace {

int run_program(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "ppsim");
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  return ppsim::cli::run_program(static_cast<int>(arguments.size()), pointers.data());
}

}  // namespace

NB_MODULE(_core, module) {
  namespace nb = nanobind;
  using namespace nb::literals;
  module.doc() = "The C++ libraries of ppsim. Private: import ppsim.";
  module.attr("version") = PPSIM_VERSION;
  module.def("run_program", &run_program, "arguments"_a, nb::call_guard<nb::gil_scoped_release>(),
             "Runs the command line; signals end the process from then on. Returns: the exit code.");
  ppsim::python::bind_errors(module);
  ppsim::python::bind_ir(module);
  ppsim::python::bind_schedules(module);
  ppsim::python::bind_costs(module);
  ppsim::python::bind_arrow(module);
  ppsim::python::bind_simulation(module);
  ppsim::python::bind_effects(module);
  ppsim::python::bind_verification(module);
  ppsim::python::bind_all_microbatches(module);
  ppsim::python::bind_search(module);
  ppsim::python::bind_execution(module);
  ppsim::python::bind_targets(module);
  ppsim::python::bind_annotations(module);
  ppsim::python::bind_plan(module);
  ppsim::python::bind_study(module);
}
