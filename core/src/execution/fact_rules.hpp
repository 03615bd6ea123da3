#pragma once

#include <algorithm>
#include <vector>

#include "ppsim/core/execution/facts.hpp"

/// A visitor switches over the kind of a fact, which the rules below name: inlined into them, nothing is left
/// of the switch. g++ does not inline a visitor that is called in many places unless it is told to.
#define PPSIM_IN_PLACE __attribute__((always_inline))

namespace ppsim {

[[nodiscard]] inline Fact pass_fact(FactKind kind, const Action& a) {
  return {kind, a.subject, a.microbatch, a.slice, -1};
}

/// Whether an action that requires a fact of this kind waits for it even where nothing provides it.
[[nodiscard]] constexpr bool is_always_required(FactKind kind) {
  return kind == FactKind::forward_done || kind == FactKind::backward_done || kind == FactKind::weight_done ||
         kind == FactKind::received_forward || kind == FactKind::received_backward;
}

/// The requirements of F and B: see for_each_required.
template <class Visit>
class PassRequirements {
 public:
  PassRequirements(const Pipeline& pipeline, const Action& action, RankId rank, Visit& visit)
      : pipeline_(pipeline), action_(action), rank_(rank), visit_(visit) {}

  void forward() {
    if (!pipeline_.input_sum(action_.stage()).valid()) {
      for (const StageId u : pipeline_.producers(action_.stage(), action_.mb())) output_of(u);
    }
    for (const StageId u : pipeline_.side_producers(action_.stage(), action_.mb()))
      delivered(FactKind::forward_done, FactKind::received_forward, u);
    collectives(OpKind::forward);
    if (action_.slice > 0)
      need({FactKind::forward_done, action_.subject, action_.microbatch, action_.slice - 1, -1});
    where_present(FactKind::loaded);
    if (const int version = pipeline_.version(action_.stage(), action_.mb()); version > 0) {
      for (const BlockId block : pipeline_.blocks_of(action_.stage()))
        need({FactKind::updated, block.value(), version - 1, 0, -1});
    }
  }

  void backward() {
    if (!pipeline_.gradient_sum(action_.stage()).valid()) {
      for (const StageId v : pipeline_.consumers(action_.stage(), action_.mb()))
        delivered(FactKind::backward_done, FactKind::received_backward, v);
    }
    collectives(OpKind::backward);
    need(pass_fact(FactKind::forward_done, action_));
    if (action_.slice + 1 < pipeline_.slices())
      need({FactKind::backward_done, action_.subject, action_.microbatch, action_.slice + 1, -1});
    where_present(FactKind::recomputed);
    where_present(FactKind::reloaded);
    where_present(FactKind::activations_received);
  }

 private:
  PPSIM_IN_PLACE void need(const Fact& fact) { visit_(fact, false); }
  PPSIM_IN_PLACE void where_present(FactKind kind) { visit_(pass_fact(kind, action_), true); }

  /// The collectives that stand before a pass of the action's stage.
  PPSIM_IN_PLACE void collectives(OpKind pass) {
    for (const CollectiveId id : pipeline_.collectives_before(action_.stage(), pass))
      need({FactKind::collected, id.value(), action_.microbatch, 0, -1});
  }

  /// An output of another rank that several stages of a rank read comes once, to the first of them.
  PPSIM_IN_PLACE void output_of(StageId producer) {
    if (pipeline_.rank_of(producer) == rank_)
      return need({FactKind::forward_done, producer.value(), action_.microbatch, action_.slice, -1});
    const StageId receiver = pipeline_.receiver(producer, action_.stage(), action_.mb());
    need({FactKind::received_forward, receiver.value(), action_.microbatch, action_.slice, producer.value()});
  }

  PPSIM_IN_PLACE void delivered(FactKind local, FactKind received, StageId from) {
    if (pipeline_.rank_of(from) == rank_) {
      need({local, from.value(), action_.microbatch, action_.slice, -1});
    } else {
      need({received, action_.subject, action_.microbatch, action_.slice, from.value()});
    }
  }

  const Pipeline& pipeline_;
  const Action& action_;
  RankId rank_;
  Visit& visit_;
};

/// The requirements of kinds that occur a few times in a row, or in few rows.
void rare_requirements(const Pipeline& pipeline, const Action& a, RankId rank, std::vector<Requirement>& out);

/// Calls visit(fact, optional) for every requirement of `required_facts`, in its order, without a list of
/// them.
template <class Visit>
void for_each_required(const Pipeline& pipeline, const Action& a, RankId rank, Visit&& visit) {
  switch (a.kind) {
    case OpKind::forward:
      return PassRequirements<Visit>(pipeline, a, rank, visit).forward();
    case OpKind::backward:
    case OpKind::backward_input:
      return PassRequirements<Visit>(pipeline, a, rank, visit).backward();
    case OpKind::backward_weight:
    case OpKind::send_backward:
      return visit(pass_fact(FactKind::backward_done, a), false);
    case OpKind::recompute:
    case OpKind::offload:
    case OpKind::send_forward:
      return visit(pass_fact(FactKind::forward_done, a), false);
    case OpKind::recv_forward:
    case OpKind::recv_backward:
    case OpKind::load:
    case OpKind::unshard:
    case OpKind::reshard:
    case OpKind::overlap:
      return;
    case OpKind::reload:
    case OpKind::send_activation:
    case OpKind::recv_activation:
    case OpKind::reduce_grad:
    case OpKind::optimizer:
    case OpKind::collective:
      break;
  }
  std::vector<Requirement> rare;
  rare_requirements(pipeline, a, rank, rare);
  for (const Requirement& requirement : rare) visit(requirement.fact, requirement.optional);
}

/// Calls visit(fact) for every fact of `provided_facts`, in its order, without a list of them.
template <class Visit>
void for_each_provided(const Pipeline& pipeline, const Action& a, RankId rank, Visit&& visit) {
  const auto cell = [&](FactKind kind) PPSIM_IN_PLACE { visit(pass_fact(kind, a)); };
  switch (a.kind) {
    case OpKind::forward:
      return cell(FactKind::forward_done);
    case OpKind::backward:
      cell(FactKind::backward_done);
      return cell(FactKind::weight_done);
    case OpKind::backward_input:
      return cell(FactKind::backward_done);
    case OpKind::backward_weight:
      return cell(FactKind::weight_done);
    case OpKind::recompute:
      return cell(FactKind::recomputed);
    case OpKind::recv_forward:
      return visit(Fact{FactKind::received_forward, a.subject, a.microbatch, a.slice, a.peer});
    case OpKind::recv_backward:
      return visit(Fact{FactKind::received_backward, a.subject, a.microbatch, a.slice, a.peer});
    case OpKind::recv_activation:
      return cell(FactKind::activations_received);
    case OpKind::send_activation:
      if (pipeline.rank_of(a.stage()) == rank) cell(FactKind::activations_sent);
      return;
    case OpKind::load:
      return cell(FactKind::loaded);
    case OpKind::offload:
      return cell(FactKind::offloaded);
    case OpKind::reload:
      return cell(FactKind::reloaded);
    case OpKind::reduce_grad:
      return cell(FactKind::reduced);
    case OpKind::optimizer:
      return cell(FactKind::updated);
    case OpKind::collective: {
      // A norm belongs to an update; without a number it is that of update 0.
      Fact fact = pass_fact(FactKind::collected, a);
      if (pipeline.spec().collectives[a.collective()].per_update())
        fact.microbatch = std::max(a.microbatch, 0);
      return visit(fact);
    }
    case OpKind::send_forward:
    case OpKind::send_backward:
    case OpKind::unshard:
    case OpKind::reshard:
    case OpKind::overlap:
      return;
  }
}

}  // namespace ppsim
