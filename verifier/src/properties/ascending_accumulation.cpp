#include <map>

#include "ppsim/core/io/text.hpp"
#include "ppsim/core/ir/concatenated.hpp"
#include "ppsim/core/ir/padding.hpp"
#include "properties.hpp"

namespace ppsim::verifier {
namespace {

/// The last microbatch that a stage added to the gradients of an update.
using LastAdded = std::map<std::pair<StageId, int>, Action>;

void visit(const Program& program, InstructionId id, LastAdded& last, std::vector<Violation>& found) {
  const Pipeline& pipeline = program.pipeline();
  for (const Action& action : program.actions(id)) {
    if (!gives_weight_gradient(action.kind) || is_padding(pipeline, action.mb())) continue;
    const auto [entry, first] =
        last.try_emplace({action.stage(), pipeline.spec().update[action.mb()]}, action);
    if (!first && action.microbatch < entry->second.microbatch) {
      found.push_back({id, concatenated("rank ", program.rank_of(id), ": ", action_text(pipeline, action),
                                        " stands after ", action_text(pipeline, entry->second))});
    }
    entry->second = action;
  }
}

}  // namespace

// Compute runs in issue order on one queue of the rank, so the lists alone decide.
Answer check_ascending_accumulation(const AnalyzedProgram& analyzed) {
  const Program& program = analyzed.program();
  LastAdded last;
  std::vector<Violation> found;
  for (const InstructionId id : program.ids()) visit(program, id, last, found);
  return {proved_unless(std::move(found))};
}

}  // namespace ppsim::verifier
