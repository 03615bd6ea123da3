#include "ppsim/core/ir/hash.hpp"
#include "ppsim/core/ir/transports.hpp"
#include "ppsim/verifier/verify.hpp"

namespace ppsim::verifier {
namespace {

Expected<void> has_grounds(const VerifyOptions& options, const VerifyReport& report) {
  for (const Property needed : {Property::well_formed, Property::matched, Property::deadlock_free}) {
    if (!report.proved(needed)) {
      return make_error(ErrorCode::refused, std::string(property_name(needed)) + " is not proved");
    }
  }
  if (report.find(Property::deadlock_free)->method != "graph") {
    return make_error(ErrorCode::bad_argument,
                      "no certificate can be written: deadlock freedom rests on exploring a residency limit, "
                      "for which there is no witness");
  }
  for (const Property asked : {Property::tensor_use, Property::memory}) {
    if (report.find(asked) == nullptr || report.proved(asked)) continue;
    return make_error(ErrorCode::refused, std::string(property_name(asked)) + " is not proved");
  }
  for (const WorstCase& worst : report.memory) {
    if (options.memory_limit && worst.witness.bytes > *options.memory_limit) {
      return make_error(ErrorCode::refused, "the bound that can be witnessed is over the limit");
    }
  }
  return {};
}

}  // namespace

Expected<Certificate> make_certificate(const AnalyzedProgram& analyzed, const VerifyOptions& options,
                                       const VerifyReport& report) {
  PPSIM_RETURN_IF_ERROR(has_grounds(options, report));
  Certificate certificate;
  certificate.transport = name_of(options.capabilities);
  certificate.program_hash = program_hash(analyzed.program());
  certificate.capabilities = options.capabilities;
  certificate.capabilities_hash = capabilities_hash(options.capabilities);
  for (const std::string_view property : certifiable_properties()) {
    if (report.proved(*property_from_name(property))) certificate.properties.emplace_back(property);
  }
  certificate.order = analyzed.order().items;
  if (report.proved(Property::memory)) {
    certificate.sizes_hash = sizes_hash(*options.sizes);
    for (const WorstCase& worst : report.memory) certificate.memory.push_back(worst.witness);
  }
  return certificate;
}

}  // namespace ppsim::verifier
