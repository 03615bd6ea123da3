#include "support/vocabulary_cases.hpp"

namespace ppsim::test {

std::ostream& operator<<(std::ostream& out, const VocabularyCase& one) {
  return out << one.name << ':' << one.input << " on " << one.ranks << " ranks with " << one.microbatches
             << " microbatches, B " << one.costs.B;
}

std::vector<VocabularyCase> vocabulary_cases() {
  std::vector<VocabularyCase> all;
  for (const char* name : {"vocab-1", "vocab-2"}) {
    for (const char* input : {"first", "sharded"}) {
      for (const int ranks : {1, 2, 3, 4, 7}) {
        for (const int microbatches : {1, 2, 5})
          all.push_back({name, input, ranks, microbatches, {.F = 1, .B = microbatches == 5 ? 0.5 : 2}});
      }
    }
  }
  return all;
}

Schedule schedule_of(const VocabularyCase& one) {
  ScheduleParameters parameters{.ranks = one.ranks, .microbatches = one.microbatches};
  parameters.settings = {{"input", one.input}};
  parameters.costs = unit_cost_table(one.costs);
  return generate(one.name, parameters).value();
}

Schedule with_split_backward(const Schedule& schedule) {
  const Pipeline& pipeline = schedule.pipeline();
  ScheduleBuilder builder("split", pipeline);
  for (int r = 0; r < pipeline.ranks(); ++r) {
    for (const Cell& cell : schedule.row(RankId(r))) {
      const Action action = cell.actions().front();
      if (action.kind != OpKind::backward) {
        builder.add(RankId(r), cell);
        continue;
      }
      builder.add(OpKind::backward_input, action.stage(), action.mb());
      builder.add(OpKind::backward_weight, action.stage(), action.mb());
    }
  }
  return builder.build().value();
}

}  // namespace ppsim::test
