#include <gtest/gtest.h>

#include "ppsim/core/io/json.hpp"
#include "ppsim/core/io/torch_csv.hpp"
#include "ppsim/core/ir/hash.hpp"
#include "ppsim/core/lowering/communicators.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "support/hand_program.hpp"

// How long a Program keeps what it sends.

namespace ppsim::test {
namespace {

using enum TensorKind;

Program delayed(const Program& program, int delay) {
  ProgramDraft draft = to_draft(program);
  draft.send_done_delay = delay;
  return ProgramBuilder::build(program.pipeline(), draft).value();
}

/// A chain of two stages and three microbatches; both directions share a communicator where `communicators`
/// is 1.
Program three_messages(int channels) {
  const std::string back = channels == 1 ? "@0" : "@1";
  HandProgram hand{.pipeline = chain_spec(2, 2, 3), .communicators = communicators({{0, 1}, {0, 1}})};
  hand.rows = {{"0F0", "0SEND_F0@0", "0F1", "0SEND_F1@0", "0F2", "0SEND_F2@0", "0RECV_B0" + back, "0B0",
                "0RECV_B1" + back, "0B1", "0RECV_B2" + back, "0B2"},
               {"1RECV_F0@0", "1F0", "1B0", "1RECV_F1@0", "1F1", "1B1", "1RECV_F2@0", "1F2", "1B2",
                "1SEND_B0" + back, "1SEND_B1" + back, "1SEND_B2" + back}};
  return hand.build();
}

TEST(SendDoneDelay, KeepsWhatIsSentUntilLaterSendsAreComplete) {
  const Program program = three_messages(2);
  EXPECT_EQ(lifetimes(program, 0, boundary_output, 0), "0 -> 0,1; 2 -> 2,3; 4 -> 4,5");
  EXPECT_EQ(lifetimes(delayed(program, 1), 0, boundary_output, 0), "0 -> 0,1,3; 2 -> 2,3,5; 4 -> end");
  EXPECT_EQ(lifetimes(delayed(program, 2), 0, boundary_output, 0), "0 -> 0,1,5; 2 -> end; 4 -> end");
  EXPECT_EQ(lifetimes(delayed(program, kUntilStepEnd), 0, boundary_output, 0),
            "0 -> end; 2 -> end; 4 -> end");
  EXPECT_EQ(lifetimes(delayed(program, 1), 1, outgoing_gradient, 1), "2 -> 2,9,10; 5 -> 5,10,11; 8 -> end");
}

TEST(SendDoneDelay, IsNotAboutWhatIsReceived) {
  const Program program = three_messages(2);
  const Program kept = delayed(program, kUntilStepEnd);
  EXPECT_EQ(lifetimes(kept, 1, boundary_input, 1), lifetimes(program, 1, boundary_input, 1));
  EXPECT_EQ(lifetimes(kept, 0, incoming_gradient, 0), lifetimes(program, 0, incoming_gradient, 0));
}

TEST(SendDoneDelay, CountsEachDirectionOfACommunicatorByItself) {
  EXPECT_EQ(lifetimes(delayed(three_messages(1), 1), 1, outgoing_gradient, 1),
            "2 -> 2,9,10; 5 -> 5,10,11; 8 -> end");
}

TEST(SendDoneDelay, IsPartOfWhatIsHashedAndWritten) {
  const Program program = three_messages(2);
  EXPECT_EQ(to_json(program).find("send_done_delay"), std::string::npos);
  std::string wrong = to_json(program);
  wrong.replace(wrong.find('{'), 1, "{\"send_done_delay\": -1,");
  EXPECT_EQ(ir_from_json(wrong, "p.json").error().place.expected,
            "a whole number in [0, 2147483646] or a string");
  EXPECT_EQ(program_hash(delayed(program, 0)), program_hash(program));
  EXPECT_NE(program_hash(delayed(program, 1)), program_hash(program));
  EXPECT_NE(program_hash(delayed(program, kUntilStepEnd)), program_hash(delayed(program, 1)));
  for (const int delay : {0, 1, 7, kUntilStepEnd}) {
    const Program kept = delayed(program, delay);
    EXPECT_EQ(std::get<Program>(ir_from_json(to_json(kept), "file.json").value()), kept);
  }
  EXPECT_NE(delayed(program, 1), program);
  EXPECT_TRUE(to_csv(program, CsvDialect::torch).has_value());
  EXPECT_FALSE(to_csv(delayed(program, 1), CsvDialect::torch).has_value());
}

TEST(SendDoneDelay, StaysWithTheProgram) {
  const Program kept = delayed(three_messages(2), 3);
  EXPECT_EQ(with_communicators(kept, CommunicatorPolicy::per_rank)->send_done_delay(), 3);
  EXPECT_EQ(delayed(kept, 3), kept);
}

TEST(SendDoneDelay, IsANumberOfSendsOrTheEnd) {
  EXPECT_EQ(send_done_delay_from_text("0").value(), 0);
  EXPECT_EQ(send_done_delay_from_text("12").value(), 12);
  EXPECT_EQ(send_done_delay_from_text("end").value(), kUntilStepEnd);
  for (const char* text : {"", "-1", "1.5", "2147483647", "never", "12x"})
    EXPECT_FALSE(send_done_delay_from_text(text).has_value()) << text;
  ProgramDraft draft = to_draft(three_messages(2));
  draft.send_done_delay = -1;
  EXPECT_NE(ProgramBuilder::build(three_messages(2).pipeline(), draft).error().message.find("negative"),
            std::string::npos);
}

}  // namespace
}  // namespace ppsim::test
