#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "ppsim/core/io/json.hpp"
#include "ppsim/core/io/text.hpp"
#include "ppsim/core/io/torch_csv.hpp"
#include "ppsim/core/ir/hash.hpp"
#include "ppsim/core/lowering/communicators.hpp"
#include "support/random_program.hpp"
#include "support/random_schedule.hpp"

namespace ppsim {
namespace {

template <class T>
bool gives(const Expected<T>& read, const T& expected) {
  return read.has_value() && *read == expected;
}

CsvDialect any_dialect() {
  return *rc::gen::element(CsvDialect::torch, CsvDialect::legacy, CsvDialect::zero_bubble);
}

Program any_program(rc::Gen<test::RandomShape> shapes) {
  const auto schedule = *test::schedules(std::move(shapes));
  return test::random_program(schedule, *rc::gen::inRange(0, 4), *rc::gen::arbitrary<std::uint64_t>());
}

/// Any action that a pipeline has the ids for, however wrong.
Action any_action(const Pipeline& pipeline) {
  const OpInfo row = *rc::gen::suchThat(
      rc::gen::elementOf(std::vector(kOpTable.begin(), kOpTable.end())), [&](const OpInfo& info) {
        return info.kind != OpKind::overlap &&
               (info.subject != Subject::collective || !pipeline.spec().collectives.empty());
      });
  Action action;
  action.kind = row.kind;
  action.subject = *rc::gen::inRange(0, pipeline.count(row.subject));
  if (row.microbatch != MicrobatchUse::none) {
    const bool updates = row.microbatch == MicrobatchUse::update;
    action.microbatch = *rc::gen::inRange(row.microbatch == MicrobatchUse::optional ? -1 : 0,
                                          updates ? pipeline.updates() : pipeline.microbatches());
  }
  if (row.microbatch == MicrobatchUse::required) {
    action.slice = static_cast<std::uint16_t>(*rc::gen::inRange(0, pipeline.slices()));
  }
  if (is_transfer(row.kind)) {
    const bool lends = row.kind == OpKind::send_activation || row.kind == OpKind::recv_activation;
    action.peer = *rc::gen::inRange(0, lends ? pipeline.ranks() : pipeline.stages());
  }
  return action;
}

RC_GTEST_PROP(RoundTrip, TextOfAnyAction, ()) {
  const auto schedule = *test::schedules(test::general_shapes());
  const Action action = any_action(schedule.pipeline());
  const std::string text = action_text(schedule.pipeline(), action);
  RC_ASSERT(gives(parse_action(schedule.pipeline(), text), action));
}

RC_GTEST_PROP(RoundTrip, TextOfSteps, ()) {
  const auto schedule = *test::schedules(test::general_shapes());
  for (int r = 0; r < schedule.pipeline().ranks(); ++r) {
    for (const Cell& cell : schedule.row(RankId(r))) {
      RC_ASSERT(gives(parse_cell(schedule.pipeline(), cell_text(schedule.pipeline(), cell)), cell));
    }
  }
}

RC_GTEST_PROP(RoundTrip, TextOfInstructions, ()) {
  const Program program = any_program(test::general_shapes());
  const ProgramDraft draft = to_draft(program);
  for (int r = 0; r < program.pipeline().ranks(); ++r) {
    InstructionId id = program.first(RankId(r));
    for (const InstructionDraft& item : draft.rows[RankId(r)]) {
      RC_ASSERT(gives(parse_instruction(program.pipeline(), instruction_text(program, id)), item));
      id = InstructionId(id.value() + 1);
    }
  }
}

RC_GTEST_PROP(RoundTrip, JsonOfSchedules, ()) {
  const auto schedule = *test::schedules(test::general_shapes());
  const std::string text = to_json(schedule);
  const auto read = ir_from_json(text, "f.json");
  RC_ASSERT(read.has_value());
  RC_ASSERT(std::get<Schedule>(*read) == schedule);
  RC_ASSERT(std::get<Schedule>(*read).name() == schedule.name());
  RC_ASSERT(to_json(std::get<Schedule>(*read)) == text);
}

RC_GTEST_PROP(RoundTrip, JsonOfPrograms, ()) {
  const Program program = any_program(test::general_shapes());
  const std::string text = to_json(program);
  const auto read = ir_from_json(text, "f.json");
  RC_ASSERT(read.has_value());
  RC_ASSERT(std::get<Program>(*read) == program);
  RC_ASSERT(program_hash(std::get<Program>(*read)) == program_hash(program));
  RC_ASSERT(to_json(std::get<Program>(*read)) == text);
}

RC_GTEST_PROP(RoundTrip, JsonOfTables, ()) {
  Tables tables;
  const CostTable costs = test::random_costs(4, *rc::gen::arbitrary<std::uint64_t>());
  for (const auto& [key, duration] : costs.entries()) {
    if (info(key.kind).direction != Direction::receive) tables.costs.set(key, duration);
  }
  for (int i = *rc::gen::inRange(0, 20); i > 0; --i) {
    SizeClass key;
    key.kind = static_cast<TensorKind>(*rc::gen::inRange(0, kTensorKindCount));
    key.subject = *rc::gen::inRange(-1, 4);
    key.peer = *rc::gen::inRange(-1, 4);
    key.slice = *rc::gen::inRange(-1, 4);
    if (key.kind == TensorKind::workspace)
      key.op = *rc::gen::element(OpKind::forward, OpKind::backward, OpKind::backward_input,
                                 OpKind::backward_weight, OpKind::recompute, OpKind::optimizer);
    tables.sizes.set(key, *rc::gen::inRange<Bytes>(0, std::int64_t{1} << 62));
  }
  RC_ASSERT(gives(tables_from_json(to_json(tables), "f.json"), tables));
}

RC_GTEST_PROP(RoundTrip, CsvOfSchedules, ()) {
  auto shape = *test::plain_shapes();
  const CsvDialect dialect = any_dialect();
  if (dialect == CsvDialect::zero_bubble) {
    shape.backward = test::BackwardMode::split;
  }
  const Schedule schedule = test::random_schedule(shape, *rc::gen::arbitrary<std::uint64_t>());
  const auto text = to_csv(schedule, dialect);
  RC_ASSERT(text.has_value());
  RC_ASSERT(!csv_has_communication(*text));
  RC_ASSERT(gives(schedule_from_csv(*text, "f.csv", dialect), schedule));
}

/// The communication of a schedule in the order of its rows, sends after and receives before what they serve.
ProgramDraft with_transfers(const Schedule& schedule) {
  const Pipeline& pipeline = schedule.pipeline();
  ProgramDraft draft;
  for (int r = 0; r < pipeline.ranks(); ++r) {
    std::vector<InstructionDraft> row;
    const auto add = [&](OpKind kind, const Action& action, std::span<const StageId> peers) {
      for (const StageId peer : peers) {
        if (pipeline.rank_of(peer) == RankId(r)) continue;
        InstructionDraft item;
        item.actions = {
            at_slice(make_transfer(kind, action.subject, action.microbatch, peer.value()), action.slice)};
        row.push_back(std::move(item));
      }
    };
    for (const Cell& cell : schedule.row(RankId(r))) {
      if (cell.idle()) continue;
      const std::span<const Action> actions = cell.actions();
      for (const Action& action : actions) {
        if (action.kind == OpKind::forward)
          add(OpKind::recv_forward, action, pipeline.producers(action.stage(), action.mb()));
        if (gives_input_gradient(action.kind))
          add(OpKind::recv_backward, action, pipeline.consumers(action.stage(), action.mb()));
      }
      InstructionDraft compute;
      compute.actions.assign(actions.begin(), actions.end());
      compute.form = cell.overlapped() ? InstructionForm::overlap : InstructionForm::single;
      row.push_back(std::move(compute));
      for (const Action& action : actions) {
        if (action.kind == OpKind::forward)
          add(OpKind::send_forward, action, pipeline.consumers(action.stage(), action.mb()));
        if (gives_input_gradient(action.kind))
          add(OpKind::send_backward, action, pipeline.producers(action.stage(), action.mb()));
      }
    }
    draft.rows.push_back(std::move(row));
  }
  return draft;
}

RC_GTEST_PROP(RoundTrip, CsvOfPrograms, ()) {
  auto shape = *test::plain_shapes();
  const auto policy = *rc::gen::element(CommunicatorPolicy::per_rank, CommunicatorPolicy::per_pair,
                                        CommunicatorPolicy::per_edge, CommunicatorPolicy::per_stage_edge);
  const CsvDialect dialect = any_dialect();
  if (dialect == CsvDialect::zero_bubble) shape.backward = test::BackwardMode::split;
  const Schedule schedule = test::random_schedule(shape, *rc::gen::arbitrary<std::uint64_t>());
  ProgramDraft draft = with_transfers(schedule);
  assign_communicators(schedule.pipeline(), draft, policy);
  const auto program = ProgramBuilder::build(schedule.pipeline(), draft);
  RC_ASSERT(program.has_value());
  const auto text = to_csv(*program, dialect);
  RC_ASSERT(text.has_value());
  RC_ASSERT(gives(program_from_csv(*text, "f.csv", dialect, policy), *program));
}

RC_GTEST_PROP(RoundTrip, JsonToCsvToJson, ()) {
  const auto schedule = *test::schedules(test::plain_shapes());
  const auto from_json = ir_from_json(to_json(schedule), "random.json");
  RC_ASSERT(from_json.has_value());
  const auto csv = to_csv(std::get<Schedule>(*from_json), CsvDialect::torch);
  RC_ASSERT(csv.has_value());
  const auto back = schedule_from_csv(*csv, "random.csv", CsvDialect::torch);
  RC_ASSERT(back.has_value());
  RC_ASSERT(to_json(*back) == to_json(schedule));
}

}  // namespace
}  // namespace ppsim
