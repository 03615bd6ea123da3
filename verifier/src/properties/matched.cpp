#include "properties.hpp"

namespace ppsim::verifier {

Answer check_matched(const Question& question) {
  return {proved_unless(match_violations(question.program, question.analyzed.graph()))};
}

}  // namespace ppsim::verifier
