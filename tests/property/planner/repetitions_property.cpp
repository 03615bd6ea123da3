#include "ppsim/planner/repetitions.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "ppsim/core/ir/transports.hpp"
#include "ppsim/verifier/parameterized/all_microbatches.hpp"
#include "support/budget.hpp"
#include "support/generated.hpp"

namespace ppsim::test {
namespace {

/// A schedule whose stages take different times.
struct Uneven {
  std::string name;
  int ranks = 2;
  CostTable costs;

  [[nodiscard]] Expected<Schedule> schedule(int microbatches) const {
    return generate(name, {.ranks = ranks, .microbatches = microbatches});
  }
  [[nodiscard]] Expected<Program> program(int microbatches) const {
    const auto of_number = schedule(microbatches);
    if (!of_number) return tl::unexpected(of_number.error());
    return lower(*of_number, {}, &costs);
  }
};

Uneven draw_uneven() {
  Uneven drawn{*rc::gen::element<std::string>("1f1b", "gpipe", "zb-h1", "eager-1f1b", "zb-v", "looped-bfs",
                                              "pipedream"),
               *rc::gen::inRange(2, 5),
               {}};
  const Nanoseconds least = *rc::gen::element<Nanoseconds>(10, 1000);
  const Nanoseconds more = *rc::gen::element<Nanoseconds>(0, 3, 300);
  for (const OpKind kind :
       {OpKind::forward, OpKind::backward, OpKind::backward_input, OpKind::backward_weight}) {
    for (int s = 0; s < 2 * drawn.ranks; ++s)
      drawn.costs.set({.kind = kind, .subject = s}, least + *rc::gen::inRange<Nanoseconds>(0, more + 1));
  }
  const Nanoseconds transfer = *rc::gen::inRange<Nanoseconds>(0, least);
  drawn.costs.set({.kind = OpKind::send_forward}, transfer);
  drawn.costs.set({.kind = OpKind::send_backward}, transfer);
  return drawn;
}

AllMicrobatchesReport ask(const Uneven& uneven, const std::optional<Repetition>& lists) {
  AllMicrobatchesOptions options;
  options.properties = {Property::deadlock_free};
  options.capabilities = any_transport();
  options.repetitions.lists = lists;
  options.timeout_s = kNoTimeLimit_s;
  return verify_all_microbatches([&](int m) { return uneven.program(m); }, options).value();
}

bool is_member(const Coverage& coverage, const Program& program) {
  return std::ranges::any_of(coverage.families, [&](const Family& family) {
    const PeriodicProgram& of = family.program;
    return program.pipeline().microbatches() % of.rule.period == of.remainder &&
           check_member(of, program).has_value();
  });
}

RC_GTEST_PROP(ListsUnderCosts, GoOnAsTheyAreSaidTo, ()) {
  const Uneven uneven = draw_uneven();
  const auto at_unit_costs = repetitions_of(uneven.name, {.ranks = uneven.ranks}).lists;
  const auto lists = lists_under_costs(*at_unit_costs, [&](int m) -> Expected<CostedSchedule> {
    auto schedule = uneven.schedule(m);
    if (!schedule) return tl::unexpected(schedule.error());
    return CostedSchedule{*std::move(schedule), uneven.costs};
  });
  RC_TAG(std::string(lists ? "repeat" : "not seen to repeat"));
  if (!lists) return;
  const Coverage coverage = ask(uneven, lists).coverage;
  if (!coverage.repeats_from) return;
  const int far = *rc::gen::inRange(0, 1000);
  for (const int m : {*coverage.repeats_from + 200, *coverage.repeats_from + 200 + far})
    RC_ASSERT(is_member(coverage, uneven.program(m).value()));
}

}  // namespace
}  // namespace ppsim::test
