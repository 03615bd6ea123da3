#include "support/regressions.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "ppsim/core/io/json.hpp"
#include "support/tests_folder.hpp"

namespace ppsim::test {

Program read_regression(const std::string& name) {
  const auto file = tests_folder() / "data" / "regressions" / (name + ".json");
  std::ifstream in(file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto ir = ir_from_json(text, file.string());
  if (!ir) throw std::invalid_argument(to_string(ir.error()));
  return std::get<Program>(*ir);
}

}  // namespace ppsim::test
