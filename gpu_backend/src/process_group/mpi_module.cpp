#include "mpi_module.hpp"

#include <filesystem>
#include <functional>
#include <string_view>
#include <system_error>

#include "device/cuda/dynamic_library.hpp"
#include "ppsim/gpu_backend/executor/backend_error.hpp"

namespace ppsim::gpu_backend {
namespace {

/// Where the library is installed or built, seen from the program; empty: it is not there.
std::string path_beside_program() {
  std::error_code none;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", none);
  const auto library = program.parent_path() / PPSIM_MPI_MODULE;
  return std::filesystem::exists(library, none) ? library.lexically_normal().string() : "";
}

/// Errors: throws BackendError where the library, or MPI itself, is missing.
const MpiModule* open_module() {
  const DynamicLibrary library({.path = path_beside_program(),
                                .variable = "PPSIM_MPI_MODULE",
                                .name = "ppsim_mpi.so",
                                .purpose = "the transport mpi"});
  std::function<const MpiModule*()> entry;
  library.take(entry, kMpiModuleEntry);
  return entry();  // it stays where it is: no library is unloaded
}

Expected<const MpiModule*> mpi_module() {
  try {
    const MpiModule* const module = open_module();
    if (std::string_view(module->build) == mpi_module_build()) return module;
    return make_error(ErrorCode::bad_argument, "ppsim_mpi.so is of another build of ppsim",
                      {.found = module->build, .expected = mpi_module_build()});
  } catch (const BackendError& failure) {
    return make_error(ErrorCode::bad_argument, failure.error().message,
                      {.found = "no MPI here",
                       .expected = "the package ppsim-mpi, or a build with MPI (Debian: libopenmpi-dev "
                                   "openmpi-bin) and -DPPSIM_MPI=ON"});
  }
}

}  // namespace

const char* mpi_module_build() { return PPSIM_VERSION ", " __VERSION__; }

Expected<std::unique_ptr<Bootstrap>> mpi_bootstrap() {
  PPSIM_ASSIGN_OR_RETURN(const auto* const module, mpi_module());
  return module->bootstrap();
}

std::string mpi_version() {
  const auto module = mpi_module();
  return module ? (*module)->version() : "";
}

}  // namespace ppsim::gpu_backend
