#include "ppsim/core/execution/facts.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "fact_rules.hpp"
#include "ppsim/core/ir/check.hpp"

namespace ppsim {
namespace {

/// The actions that complete a fact: any one of them.
constexpr std::array<std::array<std::string_view, 2>, kFactKindCount> kFactNames = {{{"F"},
                                                                                     {"B", "I"},
                                                                                     {"B", "W"},
                                                                                     {"R"},
                                                                                     {"RECV_F"},
                                                                                     {"RECV_B"},
                                                                                     {"RECV_A"},
                                                                                     {"LOAD"},
                                                                                     {"OFFLOAD"},
                                                                                     {"RELOAD"},
                                                                                     {"SEND_A"},
                                                                                     {"REDUCE_GRAD"},
                                                                                     {"COLL"},
                                                                                     {"OPT"}}};

bool contains(std::span<const StageId> stages, StageId stage) {
  return std::ranges::find(stages, stage) != stages.end();  // nearly always of one
}

bool owns_block(const Pipeline& pipeline, BlockId block, RankId rank) {
  const std::vector<StageId>& stages = pipeline.spec().blocks[block].stages;
  return std::ranges::any_of(stages, [&](StageId s) { return pipeline.rank_of(s) == rank; });
}

bool is_reduced_each_microbatch(const Pipeline& pipeline, BlockId block) {
  return pipeline.spec().blocks[block].reduced_each_microbatch;
}

bool is_norm(const Pipeline& pipeline, CollectiveId id) {
  return pipeline.spec().collectives[id].per_update();
}

bool takes_part(const Pipeline& pipeline, const Action& a, RankId rank) {
  const Collective& collective = pipeline.spec().collectives[a.collective()];
  return std::ranges::binary_search(collective.members, rank) &&
         (a.microbatch >= 0 || !collective.per_microbatch());
}

/// Whether what a SEND or RECV names moves between its two stages, and by a transfer.
bool is_moved(const Pipeline& pipeline, const Action& a) {
  const bool forward = a.kind == OpKind::send_forward || a.kind == OpKind::recv_forward;
  const bool at_producer = is_send(a.kind) == forward;
  const StageId from = at_producer ? a.stage() : a.peer_stage();
  const StageId to = at_producer ? a.peer_stage() : a.stage();
  const bool is_edge = contains(pipeline.consumers(from, a.mb()), to);
  if (!forward) return is_edge && !pipeline.gradient_sum(from).valid();
  return contains(pipeline.side_consumers(from, a.mb()), to) ||
         (is_edge && !pipeline.input_sum(to).valid() && pipeline.receiver(from, to, a.mb()) == to);
}

/// Collects requirements of one action on one rank.
class Requirements {
 public:
  Requirements(const Pipeline& pipeline, const Action& action, RankId rank, std::vector<Requirement>& out)
      : pipeline_(pipeline), action_(action), rank_(rank), out_(out) {}

  void send_activations() {
    const bool owner = pipeline_.rank_of(action_.stage()) == rank_;
    need(pass_fact(owner ? FactKind::forward_done : FactKind::activations_received, action_));
  }

  void receive_activations() {
    if (pipeline_.rank_of(action_.stage()) == rank_) need(pass_fact(FactKind::activations_sent, action_));
  }

  void reduction() {
    if (is_reduced_each_microbatch(pipeline_, action_.block()))
      return gradients(action_.block(), action_.mb());
    gradients(action_.block());
  }

  /// The gradients of a block's share on this rank are complete.
  void gradients(BlockId block) {
    for (const MicrobatchId mb : pipeline_.microbatches_of_update(action_.update())) gradients(block, mb);
  }

  /// As far as one microbatch adds to them.
  void gradients(BlockId block, MicrobatchId mb) {
    for (const StageId stage : pipeline_.spec().blocks[block].stages) {
      if (pipeline_.rank_of(stage) != rank_ || !pipeline_.on_route(stage, mb)) continue;
      for (int k = 0; k < pipeline_.slices(); ++k) {
        need({FactKind::weight_done, stage.value(), mb.value(), k, -1});
      }
    }
  }

  /// Gradients that REDUCE_GRAD sums microbatch by microbatch are in no other place than these sums.
  void reduced(BlockId block) {
    if (!is_reduced_each_microbatch(pipeline_, block))
      return where_present({FactKind::reduced, block.value(), action_.update(), 0, -1});
    for (const MicrobatchId mb : pipeline_.microbatches_of_update(action_.update()))
      need({FactKind::reduced, block.value(), mb.value(), 0, -1});
  }

  void optimizer() {
    gradients(action_.block());
    reduced(action_.block());
    for (int c = 0; c < static_cast<int>(pipeline_.spec().collectives.size()); ++c) {
      if (is_norm(pipeline_, CollectiveId(c)))
        where_present({FactKind::collected, c, action_.update(), 0, -1});
    }
    if (action_.update() > 0) need({FactKind::updated, action_.subject, action_.update() - 1, 0, -1});
  }

  /// The passes that a collective follows, as far as they run on this rank.
  void passes() {
    const StagePasses& after = pipeline_.spec().collectives[action_.collective()].after;
    const FactKind done = after.kind == OpKind::forward ? FactKind::forward_done : FactKind::backward_done;
    for (const StageId stage : after.stages) {
      if (pipeline_.rank_of(stage) != rank_ || !pipeline_.on_route(stage, action_.mb())) continue;
      for (int k = 0; k < pipeline_.slices(); ++k) {
        need({done, stage.value(), action_.microbatch, k, -1});
      }
    }
  }

  /// The gradient norm of an update waits for the reduced gradients of every block of the rank.
  void norm() {
    Action update = action_;
    update.microbatch = std::max(action_.microbatch, 0);
    Requirements of_update(pipeline_, update, rank_, out_);
    for (const BlockId block : pipeline_.block_ids()) {
      if (!owns_block(pipeline_, block, rank_)) continue;
      of_update.gradients(block);
      of_update.reduced(block);
    }
  }

  void need(const Fact& fact) { out_.push_back({fact, false}); }
  void where_present(const Fact& fact) { out_.push_back({fact, true}); }

 private:
  const Pipeline& pipeline_;
  const Action& action_;
  RankId rank_;
  std::vector<Requirement>& out_;
};

}  // namespace

std::ostream& operator<<(std::ostream& out, const Fact& fact) {
  const char* between = "";
  for (const std::string_view name : kFactNames[static_cast<std::size_t>(fact.kind)]) {
    if (name.empty()) continue;
    out << std::exchange(between, " or ") << fact.subject << name;
    if (fact.microbatch >= 0) out << fact.microbatch;
    if (fact.slice > 0) out << '.' << fact.slice;
    if (fact.peer >= 0) out << '<' << fact.peer;
  }
  return out;
}

bool belongs_on(const Pipeline& pipeline, const Action& a, RankId rank) {
  const OpInfo& kind = info(a.kind);
  if (kind.subject == Subject::block)
    return owns_block(pipeline, a.block(), rank) && pipeline.update_of(a) >= 0;
  if (kind.subject == Subject::collective) return takes_part(pipeline, a, rank);
  const bool at_home = pipeline.rank_of(a.stage()) == rank;
  if (kind.peer == Peer::rank) {
    return pipeline.on_route(a.stage(), a.mb()) && a.peer_rank() != rank &&
           (at_home || a.peer_rank() == pipeline.rank_of(a.stage()));
  }
  if (!at_home || a.kind == OpKind::overlap) return false;
  if (kind.peer == Peer::stage) return is_moved(pipeline, a);
  if (kind.microbatch == MicrobatchUse::none) return true;
  return pipeline.on_route(a.stage(), a.mb()) &&
         (a.kind != OpKind::load || pipeline.producers(a.stage(), a.mb()).empty());
}

void provided_facts(const Pipeline& pipeline, const Action& a, RankId rank, std::vector<Fact>& out) {
  for_each_provided(pipeline, a, rank, [&](const Fact& fact) { out.push_back(fact); });
}

void required_facts(const Pipeline& pipeline, const Action& a, RankId rank, std::vector<Requirement>& out) {
  for_each_required(pipeline, a, rank, [&](const Fact& fact, bool optional) {
    out.push_back({fact, optional});
  });
}

void rare_requirements(const Pipeline& pipeline, const Action& a, RankId rank,
                       std::vector<Requirement>& out) {
  Requirements requirements(pipeline, a, rank, out);
  if (a.kind == OpKind::reload) return requirements.need(pass_fact(FactKind::offloaded, a));
  if (a.kind == OpKind::send_activation) return requirements.send_activations();
  if (a.kind == OpKind::recv_activation) return requirements.receive_activations();
  if (a.kind == OpKind::reduce_grad) return requirements.reduction();
  if (a.kind == OpKind::optimizer) return requirements.optimizer();
  PPSIM_CHECK(a.kind == OpKind::collective, "for_each_required knows what this kind requires");
  if (is_norm(pipeline, a.collective())) requirements.norm();
  if (a.microbatch >= 0) requirements.passes();
}

}  // namespace ppsim
