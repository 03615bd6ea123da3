#include "require_well_formed.hpp"

#include <algorithm>

#include "ppsim/core/execution/well_formed.hpp"

namespace ppsim::planner {

Expected<void> require_well_formed(const AnalyzedProgram& analyzed) {
  constexpr std::size_t kMaxLines = 10;
  const std::vector<Violation> broken = well_formed_violations(analyzed.program(), analyzed.timed_graph());
  if (broken.empty()) return {};
  std::string text = "the Program is not well-formed";
  for (std::size_t i = 0; i < std::min(broken.size(), kMaxLines); ++i) text += "\n" + broken[i].message;
  if (broken.size() > kMaxLines)
    text += "\nand " + std::to_string(broken.size() - kMaxLines) + " more, which `ppsim verify` names";
  return make_error(ErrorCode::ill_formed, text);
}

}  // namespace ppsim::planner
