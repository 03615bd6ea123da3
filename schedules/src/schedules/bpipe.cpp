#include <algorithm>
#include <deque>

#include "families/catalogue.hpp"
#include "families/orders/warmup_order.hpp"
#include "families/repetitions.hpp"

// BPipe: the order of 1F1B, in which rank x < p/2 (the evictor) keeps what it has no room for on rank
// p - x - 1 (the acceptor), which needs little itself. No rank ever holds more than ceil((p + 2) / 2)
// activations, its own and those evicted to it together, where 1F1B needs p on rank 0.
//
// The paper says which rank evicts to which and the bound; which activations go, and when, is chosen here. A
// rank evicts when its next F, and what must come back for the B after it, would not fit: the newest
// activation, whose B is the furthest away, but not the one just computed, so that it leaves beside a whole
// action. What a B needs comes back beside the F before it, or in the pause before it where no F is left. The
// acceptor's end of an exchange follows the B of the acceptor that the evictor's end waits for anyway, so
// that it comes first whatever the costs. Exchanges that take no longer than an F therefore cost no time.

namespace ppsim::schedules::catalogue {
namespace {

constexpr std::string_view kName = "bpipe";

int bound(int ranks) { return (ranks + 3) / 2; }

/// Activations of microbatch `microbatch` that leave before a step of the evictor, or come back.
struct Exchange {
  std::size_t step = 0;
  int backwards = 0;  ///< B of the row before that step
  int microbatch = 0;
  bool back = false;
};

/// F and B of a rank of 1F1B.
std::vector<Action> one_f_one_b_row(int ranks, int microbatches, int rank) {
  std::vector<Action> row;
  const int warmup = std::min(ranks - rank, microbatches);
  for (int i = 0; i < warmup; ++i) row.push_back(make_action(OpKind::forward, rank, i));
  for (int j = 0; j < microbatches; ++j) {
    row.push_back(make_action(OpKind::backward, rank, j));
    if (warmup + j < microbatches) row.push_back(make_action(OpKind::forward, rank, warmup + j));
  }
  return row;
}

/// Decides which activations of a row are evicted, and when.
class Evictor {
 public:
  Evictor(const std::vector<Action>& row, int limit)
      : row_(row), limit_(as_size(limit)), evicted_(row.size() / 2, false) {}

  std::vector<Exchange> run() {
    for (; step_ < row_.size(); ++step_) {
      if (row_[step_].kind == OpKind::forward) {
        make_room();
        device_.push_back(row_[step_].microbatch);
      } else {
        fetch(row_[step_].microbatch);
        device_.pop_front();
        ++backwards_;
      }
    }
    return std::move(exchanges_);
  }

 private:
  void make_room() {
    const bool fetches = row_[step_ + 1].kind == OpKind::backward && is_evicted(row_[step_ + 1].microbatch);
    while (device_.size() + (fetches ? 2 : 1) > limit_) evict();
    if (fetches) fetch(row_[step_ + 1].microbatch);
  }

  void evict() {
    const bool just_computed = row_[step_ - 1].kind == OpKind::forward;
    const auto victim = device_.end() - (just_computed ? 2 : 1);
    evicted_[as_size(*victim)] = true;
    exchanges_.push_back({step_, backwards_, *victim, false});
    device_.erase(victim);
  }

  void fetch(int microbatch) {
    if (!is_evicted(microbatch)) return;
    evicted_[as_size(microbatch)] = false;
    exchanges_.push_back({step_, backwards_, microbatch, true});
    device_.push_front(microbatch);
  }

  [[nodiscard]] bool is_evicted(int microbatch) const { return evicted_[as_size(microbatch)]; }

  const std::vector<Action>& row_;
  std::size_t limit_;
  std::vector<bool> evicted_;  ///< by microbatch
  std::deque<int> device_;     ///< microbatches on the device, in the order of their B
  std::size_t step_ = 0;
  int backwards_ = 0;
  std::vector<Exchange> exchanges_;
};

Action evictors_end(const Exchange& exchange, int rank, int partner) {
  return make_transfer(exchange.back ? OpKind::recv_activation : OpKind::send_activation, rank,
                       exchange.microbatch, partner);
}

class PairBuilder {
 public:
  PairBuilder(ScheduleBuilder& builder, int ranks, int microbatches)
      : builder_(builder), ranks_(ranks), microbatches_(microbatches) {}

  /// The rows of rank `rank` and of its partner, or of the one in the middle alone.
  void add(int rank) {
    const int partner = ranks_ - 1 - rank;
    const std::vector<Action> row = one_f_one_b_row(ranks_, microbatches_, rank);
    const std::vector<Exchange> exchanges = Evictor(row, bound(ranks_)).run();
    add_evictor(rank, row, exchanges);
    if (partner != rank) add_acceptor(rank, exchanges);
  }

 private:
  void add_evictor(int rank, const std::vector<Action>& row, const std::vector<Exchange>& exchanges) {
    auto next = exchanges.begin();
    for (std::size_t i = 0; i < row.size(); ++i) {
      for (; next != exchanges.end() && next->step == i; ++next)
        builder_.add(RankId(rank), evictors_end(*next, rank, ranks_ - 1 - rank));
      builder_.add(RankId(rank), row[i]);
    }
  }

  void add_acceptor(int rank, const std::vector<Exchange>& exchanges) {
    const RankId partner(ranks_ - 1 - rank);
    auto next = exchanges.begin();
    int backwards = 0;
    for (const Action& action : one_f_one_b_row(ranks_, microbatches_, partner.value())) {
      for (; next != exchanges.end() && next->backwards == backwards; ++next)
        builder_.add(partner, counterpart(evictors_end(*next, rank, partner.value()), RankId(rank)));
      builder_.add(partner, action);
      if (action.kind == OpKind::backward) ++backwards;
    }
  }

  ScheduleBuilder& builder_;
  int ranks_;
  int microbatches_;
};

Expected<Schedule> generate(const ScheduleParameters& parameters) {
  const int p = parameters.ranks;
  PPSIM_ASSIGN_OR_RETURN(auto pipeline, make_chain(p, p, parameters.microbatches));
  ScheduleBuilder builder{std::string(kName), std::move(pipeline)};
  PairBuilder pairs(builder, p, parameters.microbatches);
  for (int r = 0; 2 * r < p; ++r) pairs.add(r);
  return std::move(builder).build();
}

/// A rank that evicts does so in rounds of p - 2 - rank microbatches.
Repetitions repetitions(const ScheduleParameters& parameters) {
  const int p = parameters.ranks;
  for (int r = 0; p - r > bound(p); ++r) {
    if (2 * p % (p - 2 - r) != 0) return {};
  }
  return repeats_by_group(parameters);
}

}  // namespace

ScheduleInfo bpipe() {
  return {
      .name = kName,
      .summary = "1F1B whose first ranks evict activations to the last ones",
      .paper = "Kim et al., BPipe: memory-balanced pipeline parallelism, ICML 2023, PMLR 202:16639",
      .placement = "stage s on rank s",
      .constraints = "any ranks and microbatches",
      .settings = {},
      .generate = generate,
      .repetitions = repetitions,
      .forms = {.makespan = one_f_one_b_makespan,           // where exchanges take no time
                .peak_live_activations = one_f_one_b_peak,  // lent ones count where they were made
                .bubble = "(p-1)(F+B)",
                .peak = "min(p, m)"},
  };
}

}  // namespace ppsim::schedules::catalogue
