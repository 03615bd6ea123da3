#include "ppsim/core/ir/schedule.hpp"

#include <algorithm>

#include "completeness.hpp"
#include "execution/fact_index.hpp"
#include "rules.hpp"

namespace ppsim {
namespace {

bool is_transfer_of_stages(OpKind kind) {
  return is_transfer(kind) && kind != OpKind::send_activation && kind != OpKind::recv_activation;
}

/// Facts that a transfer between stages delivers; lowering adds those.
bool comes_from_elsewhere(FactKind kind) {
  return kind == FactKind::received_forward || kind == FactKind::received_backward;
}

/// Facts whose absence the completeness check reports.
bool is_cell_fact(FactKind kind) {
  return kind == FactKind::forward_done || kind == FactKind::backward_done || kind == FactKind::weight_done;
}

class RowChecker {
 public:
  RowChecker(const Pipeline& pipeline, const IdVector<RankId, std::vector<Step>>& rows)
      : pipeline_(pipeline), rows_(rows), facts_(pipeline), completeness_(pipeline) {}

  std::string run() {
    for (int r = 0; r < pipeline_.ranks(); ++r) read_row(RankId(r));
    if (!rules_.hold()) return rules_.text();
    for (int r = 0; r < pipeline_.ranks(); ++r) check_order(RankId(r));
    completeness_.check([&](RankId rank, const std::string& text) { broken(rank, text); });
    return rules_.text();
  }

 private:
  template <class... Parts>
  [[gnu::noinline]] void broken(RankId rank, const Parts&... parts) {
    rules_.broken("rank ", rank, ": ", parts...);
  }

  void read_row(RankId rank) {
    std::int32_t position = 0;
    for (const Step& step : rows_[rank]) {
      const InstructionId id(position++);
      const auto actions = step.actions();
      if (step.overlapped() &&
          (actions[0].kind != OpKind::forward || !gives_input_gradient(actions[1].kind))) {
        broken(rank, '(', actions[0], ';', actions[1], ")OVERLAP_F_B needs an F and a B or I");
      }
      for (const Action& action : actions) {
        if (!may_stand(rank, action)) continue;
        facts_.add(rank, action, id);
        completeness_.count(action);
      }
    }
  }

  bool may_stand(RankId rank, const Action& action) {
    if (!ids_in_range(rank, action)) return false;
    if (is_transfer_of_stages(action.kind)) {
      broken(rank, action, " is a transfer between stages, which lowering adds; expected computation only");
      return false;
    }
    if (belongs_on(pipeline_, action, rank)) return true;
    if (info(action.kind).subject == Subject::stage && pipeline_.rank_of(action.stage()) != rank) {
      broken(rank, action, " stands here, expected on rank ", pipeline_.rank_of(action.stage()));
    } else {
      broken(rank, action, " does not belong on this rank or its microbatch's route");
    }
    return false;
  }

  bool ids_in_range(RankId rank, const Action& action) {
    const OpInfo& row = info(action.kind);
    int subjects = pipeline_.stages();
    if (row.subject == Subject::block) subjects = pipeline_.blocks();
    if (row.subject == Subject::collective) subjects = static_cast<int>(pipeline_.spec().collectives.size());
    const bool needs_number =
        row.microbatch == MicrobatchUse::required || row.microbatch == MicrobatchUse::update;
    const bool known = action.subject >= 0 && action.subject < subjects;
    const bool updates = known && pipeline_.counts_updates(action.kind, action.subject);
    const int numbers = updates ? pipeline_.updates() : pipeline_.microbatches();
    const bool to_rank = action.kind == OpKind::send_activation || action.kind == OpKind::recv_activation;
    const bool good = action.kind != OpKind::overlap && known && action.microbatch < numbers &&
                      (action.microbatch >= 0 || !needs_number) && action.slice < pipeline_.slices() &&
                      (!to_rank || (action.peer >= 0 && action.peer < pipeline_.ranks()));
    if (!good) {
      broken(rank, action, " is out of range: expected a subject below ", subjects, ", a number below ",
             numbers, ", a slice below ", pipeline_.slices());
    }
    return good;
  }

  void check_order(RankId rank) {
    std::int32_t position = 0;
    for (const Step& step : rows_[rank]) {
      for (const Action& action : step.actions()) check_requirements(rank, action, InstructionId(position));
      ++position;
    }
  }

  void check_requirements(RankId rank, const Action& action, InstructionId at) {
    for_each_required(pipeline_, action, rank, [&](const Fact& fact, bool optional) PPSIM_IN_PLACE {
      if (comes_from_elsewhere(fact.kind)) return;
      const InstructionId provider = facts_.provider(rank, fact);
      if (provider.valid() && provider >= at) {
        broken(rank, action, " at position ", at, " needs ", fact, ", which stands at position ", provider);
      } else if (!provider.valid() && !optional && !is_cell_fact(fact.kind)) {
        broken(rank, action, " needs ", fact, ", which is not on the rank");
      }
    });
  }

  const Pipeline& pipeline_;
  const IdVector<RankId, std::vector<Step>>& rows_;
  FactIndex facts_;
  Completeness completeness_;
  Rules rules_;
};

}  // namespace

std::size_t Schedule::action_count() const {
  std::size_t count = 0;
  for (const std::vector<Step>& row : rows_) {
    for (const Step& step : row) count += step.actions().size();
  }
  return count;
}

std::ostream& operator<<(std::ostream& out, const Schedule& schedule) {
  return out << schedule.name() << ": " << schedule.pipeline() << ", " << schedule.action_count()
             << " actions";
}

ScheduleBuilder::ScheduleBuilder(std::string name, Pipeline pipeline)
    : name_(std::move(name)),
      pipeline_(std::move(pipeline)),
      rows_(static_cast<std::size_t>(pipeline_.ranks())) {}

ScheduleBuilder& ScheduleBuilder::add(RankId rank, Step step) {
  rows_[rank].push_back(step);
  return *this;
}

ScheduleBuilder& ScheduleBuilder::add(OpKind kind, StageId stage, MicrobatchId mb, SliceId slice) {
  return add(pipeline_.rank_of(stage), Step(make_action(kind, stage.value(), mb.value(), slice.value())));
}

Expected<Schedule> ScheduleBuilder::build() const {
  if (std::string broken = RowChecker(pipeline_, rows_).run(); !broken.empty()) {
    return make_error(ErrorCode::ill_formed, std::move(broken));
  }
  return Schedule(name_, pipeline_, rows_);
}

}  // namespace ppsim
