#include "support/lowering_cases.hpp"

#include "ppsim/core/io/text.hpp"
#include "support/programs.hpp"
#include "support/row_text.hpp"

namespace ppsim::test {

Schedule two_ranks() { return schedule_of(chain(2, 2, 2), {"0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"}); }

Schedule forwards() { return schedule_of(chain(2, 2, 3), {"0F0 0F1 0F2", "1F0 1F1 1F2"}); }

std::string refusal(const Schedule& schedule, const LoweringOptions& options) {
  const auto program = lower(schedule, options);
  return program ? "" : program.error().message;
}

std::string after_text(const Program& program, int rank) {
  std::string text;
  const InstructionId first = program.first(RankId(rank));
  for (auto id = first; id < program.last(RankId(rank)); id = InstructionId(id.value() + 1)) {
    for (const InstructionId after : program.after(id)) {
      text +=
          (text.empty() ? "" : ", ") + actions_text(program, id) + " after " + actions_text(program, after);
    }
  }
  return text;
}

}  // namespace ppsim::test
