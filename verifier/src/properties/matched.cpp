#include "properties.hpp"

namespace ppsim::verifier {

Answer check_matched(const AnalyzedProgram& analyzed) {
  return {proved_unless(match_violations(analyzed.program(), analyzed.graph()))};
}

}  // namespace ppsim::verifier
