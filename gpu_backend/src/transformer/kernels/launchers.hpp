#pragma once

#include "kernel_table.hpp"

/// The launchers, one file for each part of a stage.
namespace ppsim::gpu_backend::cuda {

#define PPSIM_CALL(name, type) type name;
#include "kernel_table.def"
#undef PPSIM_CALL

}  // namespace ppsim::gpu_backend::cuda
