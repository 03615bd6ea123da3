#pragma once

#include <filesystem>

namespace ppsim::test {

/// The folder tests of the sources that this program was built from.
std::filesystem::path tests_folder();

}  // namespace ppsim::test
