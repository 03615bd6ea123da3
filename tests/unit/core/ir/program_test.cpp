#include "ppsim/core/ir/program.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "support/programs.hpp"

namespace ppsim {
namespace {

/// A change of an instruction of the second rank after which its action alone does not describe it.
struct Change {
  std::size_t position;
  std::function<void(InstructionDraft&)> make;
};

std::vector<Change> changes() {
  return {{1, [](InstructionDraft& item) { item.blocking = true; }},
          {1, [](InstructionDraft& item) { item.after = {0}; }},
          {0, [](InstructionDraft& item) { item.form = InstructionForm::group; }}};
}

InstructionDraft& place_of(const Change& change, ProgramDraft& draft) {
  return draft.rows[RankId(1)][change.position];
}

Program changed(const Program& plain, const Change& change) {
  ProgramDraft draft = to_draft(plain);
  change.make(place_of(change, draft));
  return test::program(plain.pipeline(), draft);
}

TEST(Program, AllInstructionsOfAPlainOneAreItsActions) {
  const Program plain = test::two_rank_step();
  ASSERT_EQ(plain.instructions().size(), plain.size());
  ASSERT_EQ(plain.size(), plain.action_count());
  for (const InstructionId id : plain.ids()) {
    EXPECT_EQ(plain.instruction(id), Instruction{.first_action = static_cast<std::uint32_t>(id.value())});
    EXPECT_EQ(plain.first_action(id), id.index());
    EXPECT_EQ(plain.actions(id).data(), &plain.all_actions()[id.index()]);
    EXPECT_TRUE(plain.after(id).empty());
  }
}

TEST(Program, OneInstructionThatIsNotPlainChangesNoOther) {
  const Program plain = test::two_rank_step();
  for (const Change& change : changes()) {
    const InstructionId other(plain.first(RankId(1)).value() + static_cast<int>(change.position));
    const Program mixed = changed(plain, change);
    EXPECT_NE(mixed, plain);
    EXPECT_NE(mixed.instruction(other), plain.instruction(other));
    for (const InstructionId id : plain.ids()) {
      EXPECT_EQ(mixed.instruction(id), mixed.instructions()[id.index()]);
      EXPECT_EQ(mixed.first_action(id), plain.first_action(id));
      EXPECT_EQ(mixed.instruction(id).first_action, plain.first_action(id));
      EXPECT_TRUE(std::ranges::equal(mixed.communicators_of(id), plain.communicators_of(id)));
      EXPECT_TRUE(std::ranges::equal(mixed.actions(id), plain.actions(id)));
      if (id == other) continue;
      EXPECT_EQ(mixed.instruction(id).form, InstructionForm::single);
      EXPECT_FALSE(mixed.instruction(id).blocking);
      EXPECT_TRUE(mixed.after(id).empty());
    }
  }
}

TEST(Program, IsTheSameHoweverItBecamePlain) {
  const Program plain = test::two_rank_step();
  for (const Change& change : changes()) {
    ProgramDraft draft = to_draft(changed(plain, change));
    InstructionDraft& item = place_of(change, draft);
    item = {item.actions, item.communicators};
    EXPECT_EQ(test::program(plain.pipeline(), draft), plain);
  }
}

}  // namespace
}  // namespace ppsim
