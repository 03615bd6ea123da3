#include "ppsim/core/execution/execution_graph.hpp"
#include "ppsim/core/ir/concatenated.hpp"

#include <algorithm>
#include <utility>

#include "fact_index.hpp"
#include "matching.hpp"
#include "ppsim/core/execution/rank_ranges.hpp"
#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/ir/sequences.hpp"

namespace ppsim {
namespace {

/// Where the parameters of one stage are gathered and dropped, as its rank's list is walked.
struct ShardState {
  bool used = false;  ///< the rank has an UNSHARD of the stage somewhere
  InstructionId unshard;
  std::vector<InstructionId> users;
};

/// Walks the lists of ranks, one after another, and collects what each instruction waits for.
class RankWalk {
 public:
  RankWalk(const Program& program, ExecutionGraph& graph)
      : program_(program),
        pipeline_(program.pipeline()),
        graph_(graph),
        facts_(pipeline_, FactIndex::OneRank()) {
    const Action transfer = make_action(OpKind::send_forward, 0, 0);
    for (std::size_t c = 0; c < program.communicators().size(); ++c)
      queue_of_.push_back(program.queue_of(transfer, CommunicatorId(static_cast<std::int32_t>(c))));
  }

  void run(RankId rank) {
    begin(rank);
    for (const InstructionId id : program_.ids_of(rank)) look_at(id);
    if (waits_for_data_and_queue_alone()) {
      for (const InstructionId id : program_.ids_of(rank)) visit_alone(id);
    } else {
      for (const InstructionId id : program_.ids_of(rank)) visit(id);
    }
  }

 private:
  void begin(RankId rank) {
    rank_ = rank;
    all_belong_ = true;
    all_single_ = true;
    facts_.forget();
    queue_tail_.assign(as_size(program_.queue_count()), InstructionId());
    serial_queues_.clear();
    serial_queues_.reserve(program_.last(rank).index() - program_.first(rank).index());
    shards_.clear();
    blocker_ = InstructionId();
    launches_.clear();
  }

  /// Records what an instruction provides: others of the rank may wait for it, before or after it.
  void look_at(InstructionId id) {
    const std::span<const Action> actions = program_.actions(id);
    all_single_ = all_single_ && actions.size() == 1 && program_.after(id).empty() &&
                  !program_.instruction(id).blocking;
    serial_queues_.push_back(serial_queue_of(actions.front().kind));
    for (const Action& a : actions) {
      all_belong_ = facts_.add(rank_, a, id) && all_belong_;
      if (a.kind != OpKind::unshard && a.kind != OpKind::reshard) continue;
      if (shards_.empty()) shards_.resize(as_size(pipeline_.stages()));
      shards_[a.stage().index()].used |= a.kind == OpKind::unshard;
    }
  }

  struct Wait {
    InstructionId on;
    WaitReason reason;
  };

  /// The waits of the next launch, and the launch that has them for another reason than the chain.
  struct Launch {
    int queue;  ///< of `on`; -1 where all that comes before it is over with it
    InstructionId on;
    InstructionId by;
  };

  void visit(InstructionId id) {
    waits_.clear();
    impossible_.clear();
    const std::span<const Action> actions = program_.actions(id);
    for (const Action& action : actions) {
      if (all_belong_ || belongs_on(pipeline_, action, rank_)) {
        data_waits(id, action);
        shard_waits(id, action);
      } else {
        impossible(action, " does not belong on this rank");
      }
    }
    for (const InstructionId after : program_.after(id)) wait(id, after, WaitReason::after);
    if (blocker_.valid()) wait(id, blocker_, WaitReason::host);
    queue_waits(id, actions);
    if (blocks_host(id)) blocker_ = id;
    const LaunchChain& chain = graph_.capabilities.launches;
    if (chain.order != LaunchOrder::none && is_chained(chain, program_, id)) launch(id);
    if (!impossible_.empty()) graph_.unsatisfiable.push_back({id, impossible_});
    emit();
  }

  /// Whether each instruction of the rank is one action, and nothing but its data and its queue holds it up.
  [[nodiscard]] bool waits_for_data_and_queue_alone() const {
    return all_single_ && all_belong_ && shards_.empty() && !graph_.capabilities.issue_blocks &&
           graph_.capabilities.launches.order == LaunchOrder::none;
  }

  /// visit, of such a rank, where an instruction waits for one result beside its queue, as nearly all do.
  /// Everything that it needs from its own queue is complete once the instruction before it is.
  void visit_alone(InstructionId id) {
    const Action& action = program_.actions(id).front();
    const std::int8_t serial = serial_queue_of(id);
    InstructionId& tail = queue_tail_[as_size(
        serial != kNoSerialQueue ? serial : queue_of_[program_.communicators_of(id).front().index()])];
    InstructionId input;
    bool is_one = true;
    const bool is_known = facts_.for_each_provider(action, [&](InstructionId on) {
      if (serial != kNoSerialQueue && on < tail && serial_queue_of(on) == serial) return;
      is_one = is_one && !input.valid() && on != id;
      input = on;
    });
    if (!is_known || !is_one) return visit(id);
    const InstructionId before = std::exchange(tail, id);
    if (input.valid() && before.valid() && input != before) {
      emit_two({input, WaitReason::data}, {before, WaitReason::queue});
    } else if (input.valid()) {
      add_predecessor({input, WaitReason::data});
    } else if (before.valid()) {
      add_predecessor({before, WaitReason::queue});
    }
    graph_.predecessor_begin.push_back(static_cast<std::uint32_t>(graph_.predecessors.size()));
  }

  void data_waits(InstructionId id, const Action& action) {
    const auto wait_for = [&](InstructionId on) { wait(id, on, WaitReason::data); };
    if (facts_.for_each_provider(action, wait_for)) return;
    for_each_required(pipeline_, action, rank_, [&](const Fact& fact, bool optional) PPSIM_IN_PLACE {
      const InstructionId provider = facts_.provider(rank_, fact);
      if (provider.valid()) {
        wait_for(provider);
      } else if (!optional) {
        impossible(action, " needs ", fact, ", which is not on the rank");
      }
    });
  }

  void shard_waits(InstructionId id, const Action& action) {
    if (shards_.empty() || info(action.kind).subject != Subject::stage) return;
    ShardState& shard = shards_[action.stage().index()];
    if (action.kind == OpKind::unshard) {
      shard.unshard = id;
      shard.users.clear();
    } else if (action.kind == OpKind::reshard) {
      if (!shard.unshard.valid()) return impossible(action, " has no UNSHARD before it");
      wait(id, shard.unshard, WaitReason::data);
      for (const InstructionId user : shard.users) wait(id, user, WaitReason::data);
      shard = ShardState{shard.used, InstructionId(), {}};
    } else if (shard.used && computes_stage(action.kind)) {
      if (!shard.unshard.valid()) return impossible(action, " has no UNSHARD before it");
      wait(id, shard.unshard, WaitReason::data);
      shard.users.push_back(id);
    }
  }

  void queue_waits(InstructionId id, std::span<const Action> actions) {
    if (const std::int8_t serial = serial_queue_of(id); serial != kNoSerialQueue)
      return queue_wait(id, serial);
    const auto communicators = program_.communicators_of(id);
    for (std::size_t a = 0; a < actions.size(); ++a) queue_wait(id, queue_of_[communicators[a].index()]);
  }

  void queue_wait(InstructionId id, int queue) {
    InstructionId& tail = queue_tail_[as_size(queue)];
    if (tail.valid() && tail != id) wait(id, tail, WaitReason::queue);
    tail = id;
  }

  /// E9. Whatever is launched after `id` waits for what `id` waits for, or for its completion. Of several
  /// waits for one queue the latest counts, and none that something it waits for already has waited for.
  void launch(InstructionId id) {
    const LaunchChain& chain = graph_.capabilities.launches;
    const auto last_known = [&] {
      InstructionId last;
      for (const Wait& wait : waits_) {
        if (is_chained(chain, program_, wait.on)) last = std::max(last, wait.on);
      }
      return last;
    }();
    const std::size_t own = waits_.size();
    for (const Launch& held : launches_) {
      // An instruction that waits for `id` itself never completes either.
      if (held.by > last_known) wait(id, held.on == id ? held.by : held.on, WaitReason::launch);
    }
    const OpKind kind = program_.actions(id).front().kind;
    const bool to_the_end = is_communication(kind)
                                ? chain.order == LaunchOrder::completion
                                : chain.compute && info(kind).resource == Resource::compute;
    if (to_the_end || !impossible_.empty()) {
      launches_.assign(1, {-1, id, id});
      return;
    }
    for (std::size_t w = 0; w < own; ++w) hold(waits_[w].on, id);
  }

  void hold(InstructionId on, InstructionId by) {
    const int queue = program_.queue_of(program_.actions(on).front(), program_.communicators_of(on).front());
    const auto same = [&](const Launch& held) { return held.queue == queue; };
    const auto held = std::ranges::find_if(launches_, same);
    if (held == launches_.end()) {
      launches_.push_back({queue, on, by});
    } else if (held->on < on) {
      *held = {queue, on, by};
    }
  }

  [[nodiscard]] bool blocks_host(InstructionId id) const {
    return program_.instruction(id).blocking ||
           (graph_.capabilities.issue_blocks && is_communication(program_.actions(id).front().kind));
  }

  PPSIM_IN_PLACE void wait(InstructionId id, InstructionId on, WaitReason reason) {
    if (on == id) return impossible(program_.actions(id).front(), " waits for itself");
    waits_.push_back({on, reason});
  }

  template <class... Parts>
  [[gnu::noinline]] void impossible(const Action& action, const Parts&... parts) {
    if (!impossible_.empty()) impossible_ += "; ";
    impossible_ += concatenated(action, parts...);
  }

  static constexpr std::int8_t kNoSerialQueue = -1;

  /// Compute and copy instructions run in list order on one queue, so of several waits for such a queue only
  /// the one for its latest instruction counts.
  [[nodiscard]] static std::int8_t serial_queue_of(OpKind first) {
    switch (info(first).resource) {
      case Resource::compute:
        return Program::kComputeQueue;
      case Resource::copy:
        return Program::kCopyQueue;
      case Resource::p2p:
      case Resource::collective:
        return kNoSerialQueue;
    }
    return kNoSerialQueue;
  }

  /// Requires: an instruction of the rank, as all are that others of it wait for.
  [[nodiscard]] std::int8_t serial_queue_of(InstructionId id) const {
    return serial_queues_[id.index() - program_.first(rank_).index()];
  }

  /// Latest first. Data first among equals: "waits for its input" says more than "waits for its queue".
  void sort_waits() {
    const auto before = [](const Wait& a, const Wait& b) {
      return a.on != b.on ? a.on > b.on : a.reason < b.reason;
    };
    constexpr std::size_t kFew = 8;  // nearly always, and a general sort takes longer to begin
    if (waits_.size() > kFew) return std::sort(waits_.begin(), waits_.end(), before);
    for (std::size_t i = 1; i < waits_.size(); ++i) {
      for (std::size_t k = i; k > 0 && before(waits_[k], waits_[k - 1]); --k)
        std::swap(waits_[k], waits_[k - 1]);
    }
  }

  void emit() {
    if (waits_.size() > 1) return emit_sorted();
    for (const Wait& wait : waits_) add_predecessor(wait);
    graph_.predecessor_begin.push_back(static_cast<std::uint32_t>(graph_.predecessors.size()));
  }

  /// Two waits for different instructions.
  void emit_two(const Wait& a, const Wait& b) {
    const Wait& later = a.on > b.on ? a : b;
    const Wait& earlier = a.on > b.on ? b : a;
    add_predecessor(later);
    const std::int8_t serial = serial_queue_of(earlier.on);
    if (serial == kNoSerialQueue || serial != serial_queue_of(later.on)) add_predecessor(earlier);
  }

  void emit_sorted() {
    sort_waits();
    bool seen[2] = {false, false};
    InstructionId previous;
    for (const Wait& wait : waits_) {
      if (wait.on == previous) continue;
      previous = wait.on;
      if (const std::int8_t serial = serial_queue_of(wait.on); serial != kNoSerialQueue) {
        if (seen[serial]) continue;
        seen[serial] = true;
      }
      add_predecessor(wait);
    }
    graph_.predecessor_begin.push_back(static_cast<std::uint32_t>(graph_.predecessors.size()));
  }

  void add_predecessor(const Wait& wait) {
    graph_.predecessors.push_back(wait.on);
    graph_.reasons.push_back(wait.reason);
  }

  const Program& program_;
  const Pipeline& pipeline_;
  ExecutionGraph& graph_;
  FactIndex facts_;
  std::vector<int> queue_of_;  ///< by communicator
  RankId rank_;
  bool all_belong_ = true;  ///< no action stands on another rank than its own
  bool all_single_ = true;  ///< instructions are actions, without `after`, and block nothing
  std::vector<InstructionId> queue_tail_;
  std::vector<std::int8_t> serial_queues_;  ///< by place in the list
  std::vector<ShardState> shards_;          ///< empty without UNSHARD and RESHARD
  InstructionId blocker_;
  std::vector<Launch> launches_;
  std::vector<Wait> waits_;
  std::string impossible_;
};

/// Memory for the waits of so many instructions, allocated by the thread that starts the others: nobody
/// reuses the memory that one of those allocates.
ExecutionGraph room_for_waits(const TransportCapabilities& capabilities, std::size_t size) {
  ExecutionGraph graph;
  graph.capabilities = capabilities;
  graph.predecessor_begin.reserve(size + 1);
  graph.predecessors.reserve(size * 2);
  graph.reasons.reserve(size * 2);
  return graph;
}

/// The predecessors of the instructions of some ranks, numbered as if there were no others before them.
void add_rank_waits(const Program& program, const RankRange& ranks, ExecutionGraph& graph) {
  graph.predecessor_begin.push_back(0);
  RankWalk walk(program, graph);
  for (RankId rank = ranks.first; rank < ranks.last; rank = next(rank)) walk.run(rank);
}

/// Appends the waits of the ranks that follow.
void append(ExecutionGraph& graph, const ExecutionGraph& more) {
  const auto before = static_cast<std::uint32_t>(graph.predecessors.size());
  for (std::size_t i = 1; i < more.predecessor_begin.size(); ++i)
    graph.predecessor_begin.push_back(before + more.predecessor_begin[i]);
  append_all(graph.predecessors, more.predecessors);
  append_all(graph.reasons, more.reasons);
  append_all(graph.unsatisfiable, more.unsatisfiable);
}

/// Puts the waits of all ranks together.
ExecutionGraph join_ranks(std::vector<ExecutionGraph> parts) {
  ExecutionGraph graph = std::move(parts.front());
  for (std::size_t i = 1; i < parts.size(); ++i) append(graph, std::exchange(parts[i], ExecutionGraph()));
  return graph;
}

}  // namespace

ExecutionGraph build_execution_graph(const Program& program, const TransportCapabilities& capabilities) {
  PPSIM_CHECK(!capabilities.residency || capabilities.launches.order == LaunchOrder::none,
              "a residency limit with ordered launches");
  const std::vector<RankRange> ranges = rank_ranges(program);
  std::vector<ExecutionGraph> parts;
  for (const RankRange& range : ranges) {
    // The first takes the waits of the others; unused room takes no memory.
    const std::size_t begin = program.first(range.first).index();
    parts.push_back(room_for_waits(capabilities,
                                   begin == 0 ? program.size() : program.first(range.last).index() - begin));
  }
  // Instructions wait only for others of their own rank, so each rank can be walked alone.
  MessageMaker messages(program, ranges);
  all_at_once(ranges.size(), [&](std::size_t i) {
    add_rank_waits(program, ranges[i], parts[i]);
    messages.count(i);
  });
  ExecutionGraph graph = join_ranks(std::move(parts));
  messages.make(graph);
  add_collective_matches(program, messages.has_collectives(), graph);
  return graph;
}

}  // namespace ppsim
