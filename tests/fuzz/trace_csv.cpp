// Traces. What is read as the trace of a Program can be written and read again, and looked at.

#include <sstream>

#include "fuzz.hpp"
#include "ppsim/core/io/trace_csv.hpp"
#include "ppsim/core/lowering/lowering.hpp"

namespace {

/// The Program of the corpus: two ranks, one microbatch.
const ppsim::Program& small_program() {
  static const ppsim::Program program = [] {
    ppsim::ScheduleBuilder builder("small", ppsim::make_chain(2, 2, 1).value());
    for (const ppsim::OpKind kind : {ppsim::OpKind::forward, ppsim::OpKind::backward}) {
      for (const int stage : {0, 1}) builder.add(kind, ppsim::StageId(stage), ppsim::MicrobatchId(0));
    }
    return ppsim::lower(builder.build().value(), {}).value();
  }();
  return program;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = ppsim::fuzz::text_of(data, size);
  const bool rows = ppsim::fuzz::read(ppsim::trace_rows_from_csv(text, "input.csv"));
  const auto trace = ppsim::trace_from_csv(text, "input.csv", small_program());
  ppsim::fuzz::require(rows || !trace, "a trace has rows");
  if (!ppsim::fuzz::read(trace)) return 0;
  std::ostringstream written;
  ppsim::write_trace_csv(written, small_program(), *trace);
  const auto again = ppsim::trace_from_csv(written.str(), "output.csv", small_program());
  ppsim::fuzz::require(again.has_value() && *again == *trace, "what is written reads as it was");
  static_cast<void>(ppsim::trace_violations({small_program(), ppsim::rendezvous()}, *trace));
  return 0;
}
