#pragma once

#include "binding.hpp"

namespace ppsim::python {

void bind_effects(nb::module_& module);

}  // namespace ppsim::python
