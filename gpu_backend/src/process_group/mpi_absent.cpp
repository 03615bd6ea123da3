// In place of mpi/ where this build has no MPI.

#include "ppsim/gpu_backend/process_group/bootstrap.hpp"

namespace ppsim::gpu_backend {

Expected<std::unique_ptr<Bootstrap>> mpi_bootstrap() {
  return make_error(ErrorCode::bad_argument,
                    "this build has no MPI: install it (Debian: libopenmpi-dev openmpi-bin), then build "
                    "again with -DPPSIM_MPI=ON");
}

std::string mpi_version() { return {}; }

}  // namespace ppsim::gpu_backend
