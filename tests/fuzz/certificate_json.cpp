// Certificates. What can be read can be written and read again, and the checker takes any of them.

#include "fuzz.hpp"
#include "ppsim/core/certificate/certificate.hpp"
#include "ppsim/core/io/json.hpp"
#include "ppsim/core/ir/hash.hpp"
#include "ppsim/core/lowering/lowering.hpp"

namespace {

/// The Program of the corpus's certificates: two ranks, two microbatches one after the other.
const ppsim::Program& small_program() {
  static const ppsim::Program program = [] {
    ppsim::ScheduleBuilder builder("small", ppsim::make_chain(2, 2, 2).value());
    for (const int microbatch : {0, 1}) {
      for (const ppsim::OpKind kind : {ppsim::OpKind::forward, ppsim::OpKind::backward}) {
        for (const int stage : {0, 1})
          builder.add(kind, ppsim::StageId(stage), ppsim::MicrobatchId(microbatch));
      }
    }
    return ppsim::lower(builder.build().value(), {}).value();
  }();
  return program;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto certificate = ppsim::certificate_from_json(ppsim::fuzz::text_of(data, size), "input.json");
  if (!ppsim::fuzz::read(certificate)) return 0;
  const auto again = ppsim::certificate_from_json(ppsim::to_json(*certificate), "output.json");
  ppsim::fuzz::require(again.has_value() && *again == *certificate, "what is written reads as it was");
  // As if it were for this Program, these sizes and this transport, so that the checker gets past the hashes.
  const ppsim::SizeTable sizes = ppsim::activation_size_table(100);
  certificate->program_hash = ppsim::program_hash(small_program());
  certificate->capabilities_hash = ppsim::capabilities_hash(certificate->capabilities);
  if (!certificate->memory.empty()) certificate->sizes_hash = ppsim::sizes_hash(sizes);
  static_cast<void>(ppsim::fuzz::read(ppsim::check_certificate(*certificate, small_program(), &sizes)));
  return 0;
}
