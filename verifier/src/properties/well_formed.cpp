#include "properties.hpp"

namespace ppsim::verifier {

Answer check_well_formed(const AnalyzedProgram& analyzed) {
  return {proved_unless(well_formed_violations(analyzed.program(), analyzed.graph()))};
}

}  // namespace ppsim::verifier
