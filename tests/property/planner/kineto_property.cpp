#include <rapidcheck/gtest.h>

#include <random>

#include "ppsim/core/io/text.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/planner/kineto.hpp"
#include "ppsim/schedules/registry.hpp"
#include "ppsim/simulator/engine/simulate.hpp"

// Clocks of ranks are found again from a simulated step, within the error that is said.

namespace ppsim {
namespace {

const std::vector<std::string> kSchedules = {"gpipe",      "1f1b",  "interleaved-1f1b", "zb-h1", "zb-v",
                                             "dualpipe-v", "hanayo"};

bool computes(const Program& program, InstructionId id) {
  return info(program.actions(id)[0].kind).resource == Resource::compute;
}

std::vector<KinetoRanges> traces_of(const Program& program, const TimedTrace& trace,
                                    const std::vector<Nanoseconds>& ahead, bool on_device) {
  std::vector<KinetoRanges> files(ahead.size(), KinetoRanges{"", on_device, {}});
  for (std::size_t i = 0; i < program.size(); ++i) {
    const InstructionId id(static_cast<std::int32_t>(i));
    if (!computes(program, id)) continue;
    const std::size_t rank = program.rank_of(id).index();
    files[rank].ranges.push_back({actions_text(program, id), trace.spans[id].start.time + ahead[rank],
                                  trace.spans[id].end.time + ahead[rank]});
  }
  return files;
}

RC_GTEST_PROP(KinetoProperty, ClocksAreFoundWithinTheirError, ()) {
  const int ranks = *rc::gen::inRange(2, 6);
  const int microbatches = 2 * ranks;
  const auto schedule =
      generate(*rc::gen::elementOf(kSchedules), {.ranks = ranks, .microbatches = microbatches});
  RC_PRE(schedule.has_value());
  const Program program = lower(*schedule, {}).value();
  const double transfer = *rc::gen::inRange(0, 300) / 100.0;
  const TimedTrace trace =
      simulate_program(program, {}, unit_cost_table({.B = 2, .W = 0.5, .c = transfer})).value().value();
  std::vector<Nanoseconds> ahead;
  for (int r = 0; r < ranks; ++r)
    ahead.push_back(*rc::gen::inRange<Nanoseconds>(1'000'000'000, 9'000'000'000'000));
  const bool on_device = *rc::gen::arbitrary<bool>();
  const KinetoStep step = step_of_kineto(traces_of(program, trace, ahead, on_device), program).value();
  for (std::size_t r = 0; r < ahead.size(); ++r) {
    const RankClock& clock = step.clocks.items()[r];
    RC_ASSERT(clock.error.has_value());
    RC_ASSERT(std::abs(clock.offset - (ahead[0] - ahead[r])) <= *clock.error);
  }
  // On the common clock no message is used before it is made, to the nanosecond.
  const KinetoStep again =
      step_of_kineto(traces_of(program, step.trace, std::vector<Nanoseconds>(ahead.size(), 9), on_device),
                     program)
          .value();
  for (const RankClock& clock : again.clocks) RC_ASSERT(std::abs(clock.offset) <= 2);
}

}  // namespace
}  // namespace ppsim
