#pragma once

#include <memory>
#include <string>

#include "ppsim/gpu_backend/process_group/bootstrap.hpp"

namespace ppsim::gpu_backend {

/// The content of the library ppsim_mpi.so, the only one that is linked with MPI. It is opened at run time,
/// so the program starts where there is no MPI.
struct MpiModule {
  const char* build;  ///< classes are shared, so it must be the `mpi_module_build` of who opens it
  Expected<std::unique_ptr<Bootstrap>> (*bootstrap)();
  std::string (*version)();
};

/// Version of ppsim and of its compiler.
[[nodiscard]] const char* mpi_module_build();

/// Name of the function of the library that returns its `const MpiModule*`.
inline constexpr auto kMpiModuleEntry = "ppsim_mpi_module";

}  // namespace ppsim::gpu_backend
