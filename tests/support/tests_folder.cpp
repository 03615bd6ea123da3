#include "support/tests_folder.hpp"

namespace ppsim::test {

std::filesystem::path tests_folder() { return PPSIM_TESTS_DIR; }

}  // namespace ppsim::test
