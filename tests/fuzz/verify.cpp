// The verifier on whatever Program can be read, however wrong.

#include "ppsim/verifier/verify.hpp"
#include "fuzz.hpp"
#include "ppsim/core/io/json.hpp"

namespace {

constexpr std::size_t kSmall = 200;  // instructions

void check_program(const ppsim::Program& program) {
  if (program.size() > kSmall) return;
  ppsim::VerifyOptions options;
  options.timeout_s = 0.2;
  const ppsim::VerifyReport report = ppsim::verify(program, options);
  for (const ppsim::PropertyResult& result : report.results) {
    if (const auto* refuted = std::get_if<ppsim::Refuted>(&result.verdict)) {
      ppsim::fuzz::require(!ppsim::explain(program, refuted->counterexample).empty(),
                           "a refutation explains");
    }
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto ir = ppsim::ir_from_json(ppsim::fuzz::text_of(data, size), "input.json");
  if (!ppsim::fuzz::read(ir)) return 0;
  if (const auto* program = std::get_if<ppsim::Program>(&*ir)) check_program(*program);
  return 0;
}
