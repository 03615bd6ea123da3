#include "properties.hpp"

namespace ppsim::verifier {

Answer check_well_formed(const Question& question) {
  return {proved_unless(well_formed_violations(question.program, question.analyzed.graph()))};
}

}  // namespace ppsim::verifier
