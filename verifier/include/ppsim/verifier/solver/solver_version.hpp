#pragma once

#include <string>

namespace ppsim::verifier {

/// Of the Z3 that the program runs with, "4.8.12".
[[nodiscard]] std::string solver_version();

}  // namespace ppsim::verifier

namespace ppsim {
using verifier::solver_version;
}  // namespace ppsim
