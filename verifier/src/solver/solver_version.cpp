#include "ppsim/verifier/solver/solver_version.hpp"

#include <z3.h>

namespace ppsim::verifier {

std::string solver_version() {
  unsigned major = 0, minor = 0, build = 0, revision = 0;
  Z3_get_version(&major, &minor, &build, &revision);
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(build);
}

}  // namespace ppsim::verifier
