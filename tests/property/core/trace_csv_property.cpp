#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <sstream>

#include "ppsim/core/execution/naive_executor.hpp"
#include "ppsim/core/io/trace_csv.hpp"
#include "support/random_program.hpp"
#include "support/random_schedule.hpp"

namespace ppsim::test {
namespace {

std::string csv_of(const Program& program, const TimedTrace& trace) {
  std::ostringstream text;
  write_trace_csv(text, program, trace);
  return text.str();
}

/// A trace as the file keeps it.
TimedTrace without_rounds(TimedTrace trace) {
  for (Span& span : trace.spans) span.start.delta = span.end.delta = 0;
  return trace;
}

/// Whatever ran, as far as it came.
RC_GTEST_PROP(TraceCsv, ReadsWhatIsWrittenAndFindsNothingWrongInIt, ()) {
  const Schedule schedule = *schedules(general_shapes());
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const Program program = random_program(schedule, *rc::gen::inRange(0, 4), seed);
  const NaiveRun run =
      run_naively(program, random_capabilities(true, seed), random_costs(program.pipeline().stages(), seed));
  RC_PRE(run.outcome != NaiveRun::Outcome::mismatch);
  const auto read = trace_from_csv(csv_of(program, run.trace), "t.csv", program);
  RC_ASSERT(read.has_value());
  RC_ASSERT(*read == without_rounds(run.trace));
  RC_ASSERT(trace_violations({program, rendezvous()}, *read).empty());
}

}  // namespace
}  // namespace ppsim::test
