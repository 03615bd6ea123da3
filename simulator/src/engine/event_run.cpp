#include "event_run.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <queue>
#include <set>
#include <utility>

#include "clock.hpp"
#include "duration_check.hpp"
#include "effects/device_loads.hpp"
#include "effects/flows.hpp"

namespace ppsim::simulator {
namespace {

/// An action that goes at one speed while nothing disturbs it and at another one beside transfers, each of
/// them at a share of `full` that others leave it, in whole numbers: of its parts of work a nanosecond does
/// `fast * share`, or `slow * share` where transfers slow it down.
class SlowedWork {
 public:
  SlowedWork() = default;
  /// Requires: 0 < alone <= beside, and alone * beside * full fits in 126 bits.
  SlowedWork(Nanoseconds alone, Nanoseconds beside, Nanoseconds full, Nanoseconds now)
      : fast_(beside / std::gcd(alone, beside)),
        slow_(alone / std::gcd(alone, beside)),
        left_(Wide{alone} * fast_ * full),
        speed_(Wide{fast_} * full),
        at_(now) {}

  /// Goes on at a speed until it is asked again.
  void go_on(Nanoseconds now, bool beside_transfers, Nanoseconds share) {
    left_ = std::max(Wide{0}, left_ - Wide{now - at_} * speed_);
    at_ = now;
    speed_ = Wide{beside_transfers ? slow_ : fast_} * share;
  }
  /// Whole nanoseconds from the last change of speed, the last of them begun.
  [[nodiscard]] Nanoseconds rest() const { return static_cast<Nanoseconds>((left_ + speed_ - 1) / speed_); }

 private:
  __extension__ using Wide = __int128;

  Nanoseconds fast_ = 1;
  Nanoseconds slow_ = 1;
  Wide left_ = 0;
  Wide speed_ = 1;
  Nanoseconds at_ = 0;
};

class EventRun {
 public:
  EventRun(const Program& program, const ExecutionGraph& graph, const ContendedCosts& costs,
           const Shared& shared)
      : program_(program),
        graph_(graph),
        costs_(costs),
        flows_(shared.flows),
        devices_(shared.devices, program.pipeline().ranks()),
        shares_devices_(slows_down(shared.devices)),
        state_{std::vector<char>(program.size(), 0), std::vector<char>(program.size(), 0)},
        trace_{TimedTrace::Spans(program.size())},
        messages_(graph.messages.size()),
        places_(static_cast<std::size_t>(program.pipeline().ranks()),
                graph.capabilities.residency.value_or(std::numeric_limits<int>::max())),
        kernels_(places_.size()),
        computing_(places_.size()),
        numbers_(shared.flows == nullptr ? 0 : graph.messages.size() + graph.matches.size(), kNoNumber) {
    build_successors();
    for (const CollectiveMatch& match : graph.matches) open_members_.push_back(match.member_count);
  }

  SimulatedRun run() {
    for (const InstructionId id : program_.ids()) {
      if (open_waits_[id.index()] == 0) ready_.insert(id);
    }
    start_ready();
    settle();
    while (!events_.empty()) {
      now_ = events_.top().at;
      while (!events_.empty() && events_.top().at == now_) {
        const Event event = events_.top();
        events_.pop();
        happen(event);
      }
      start_ready();
      settle();
    }
    if (completed_ < program_.size())
      return SimulatedRun(tl::unexpect, explain_stalls(program_, graph_, state_));
    return std::move(trace_);
  }

 private:
  enum class EventKind : std::uint8_t { work_done, message_out, message_received, match_over };
  struct Event {
    Instant at;
    EventKind kind;
    std::uint32_t index;
    friend auto operator<=>(const Event&, const Event&) = default;
  };
  /// The computation of a rank that transfers or other ranks slow down.
  struct Computing {
    InstructionId id;
    SlowedWork work;
    Instant end;  ///< as things are
  };
  /// Transfers and collectives of a rank that are started and incomplete.
  struct Kernels {
    int transfers = 0;
    int collectives = 0;
    [[nodiscard]] bool any() const { return transfers > 0 || collectives > 0; }
  };
  struct MessageState {
    bool begun = false;
    bool out = false;
    bool received = false;
  };

  void build_successors() {
    open_waits_.resize(program_.size());
    open_messages_.resize(program_.size());
    successors_.resize(program_.size());
    for (const InstructionId id : program_.ids()) {
      open_waits_[id.index()] = graph_.predecessors_of(id).size();
      open_messages_[id.index()] = graph_.messages_of(id).size();
      for (const InstructionId before : graph_.predecessors_of(id)) successors_[before.index()].push_back(id);
    }
    for (const Unsatisfiable& never : graph_.unsatisfiable) ++open_waits_[never.instruction.index()];
  }

  [[nodiscard]] bool communicates(InstructionId id) const {
    return is_communication(program_.actions(id)[0].kind);
  }
  [[nodiscard]] bool started(InstructionId id) const { return id.valid() && state_.started[id.index()] != 0; }

  /// Starts what is ready, ranks and positions ascending, as far as there are places.
  void start_ready() {
    for (auto next = ready_.begin(); next != ready_.end();) {
      const InstructionId id = *next;
      if (communicates(id)) {
        int& places = places_[program_.rank_of(id)];
        if (places == 0) {
          ++next;
          continue;
        }
        --places;
      }
      next = ready_.erase(next);
      start(id);
    }
  }

  void start(InstructionId id) {
    state_.started[id.index()] = 1;
    trace_.spans[id].start = now_;
    count_kernel(id, 1);
    if (const std::int32_t match = graph_.match_of[id.index()]; match >= 0) {
      join(static_cast<std::uint32_t>(match));
    } else if (graph_.messages_of(id).empty()) {
      work(id);
    } else {
      for (const std::uint32_t message : graph_.messages_of(id)) {
        begin_if_possible(message);
        if (graph_.messages[message].receive == id && messages_[message].out) {
          schedule(0, EventKind::message_received, message);
        }
      }
    }
  }

  /// A collective without other members launches nothing.
  [[nodiscard]] bool is_kernel_of_transfer(InstructionId id) const {
    const std::int32_t match = graph_.match_of[id.index()];
    return communicates(id) &&
           (match < 0 || graph_.matches[static_cast<std::size_t>(match)].member_count > 1);
  }

  /// A kernel of communication comes or goes; the first and the last of its kind change the speed.
  void count_kernel(InstructionId id, int by) {
    if (!is_kernel_of_transfer(id)) return;
    Kernels& kernels = kernels_[program_.rank_of(id)];
    int& of_kind = graph_.match_of[id.index()] >= 0 ? kernels.collectives : kernels.transfers;
    of_kind += by;
    if (of_kind == (by > 0 ? 1 : 0)) change_speed(program_.rank_of(id));
  }

  void work(InstructionId id) {
    const CostClass cost_class = cost_class_of(program_.actions(id), program_.instruction(id).form);
    const Nanoseconds alone = costs_.costs(cost_class);
    const Nanoseconds beside = std::max(alone, costs_.beside_transfers(cost_class));
    const bool computes = info(program_.actions(id)[0].kind).resource == Resource::compute;
    const bool beside_matters = costs_.differ_on(graph_.capabilities) && beside != alone;
    if (!computes || alone == 0 || !(beside_matters || shares_devices_))
      return schedule(alone, EventKind::work_done, static_cast<std::uint32_t>(id.value()));
    const RankId rank = program_.rank_of(id);
    const Rate full = shares_devices_ ? kFullSpeed : 1;
    computing_[rank] = {id, SlowedWork(alone, beside_matters ? beside : alone, full, now_.time), {}};
    if (shares_devices_)
      return devices_.begin(rank);  // its speed is known when all of the instant has happened
    change_speed(rank);
  }

  /// The first kernel of a transfer has come, the last one has gone, other ranks compute, or computation
  /// begins.
  void change_speed(RankId rank) {
    Computing& computing = computing_[rank];
    if (!computing.id.valid()) return;
    computing.work.go_on(now_.time, kernels_[rank].any(), share_of(rank));
    computing.end = completion(now_, computing.work.rest());
    events_.push({computing.end, EventKind::work_done, static_cast<std::uint32_t>(computing.id.value())});
  }

  /// Requires: the rank computes.
  [[nodiscard]] Rate share_of(RankId rank) const {
    if (!shares_devices_) return 1;
    const Rate beside_others = devices_.rate(rank, program_.actions(computing_[rank].id)[0].kind);
    const Kernels& kernels = kernels_[rank];
    return DeviceLoads::both(beside_others,
                             devices_.own_rate(kernels.transfers > 0, kernels.collectives > 0));
  }

  /// Where the speed has changed since, it is done at another time.
  void finish_work(InstructionId id) {
    Computing& computing = computing_[program_.rank_of(id)];
    if (state_.complete[id.index()] != 0) return;
    if (computing.id == id) {
      if (computing.end != now_) return;
      computing.id = InstructionId();
      if (shares_devices_) devices_.end(program_.rank_of(id));
    }
    complete(id);
  }

  void schedule(Nanoseconds duration, EventKind kind, std::uint32_t index) {
    events_.push({completion(now_, duration), kind, index});
  }

  void join(std::uint32_t index) {
    const CollectiveMatch& match = graph_.matches[index];
    if (--open_members_[index] > 0 || !match.complete) return;
    const InstructionId member = graph_.members_of(match).front();
    move(costs_.costs(cost_class_of(program_.actions(member)[0])), EventKind::match_over, index);
  }

  /// The number of a message or match among the flows.
  [[nodiscard]] std::uint32_t flow_of(EventKind kind, std::uint32_t index) const {
    return kind == EventKind::message_out ? index : static_cast<std::uint32_t>(messages_.size()) + index;
  }
  [[nodiscard]] bool is_flow(EventKind kind, std::uint32_t index) const {
    if (flows_ == nullptr || (kind != EventKind::message_out && kind != EventKind::match_over)) return false;
    return flows_->takes_links(flow_of(kind, index));
  }

  /// A message or a collective begins to move.
  void move(Nanoseconds cost, EventKind kind, std::uint32_t index) {
    if (!is_flow(kind, index)) return schedule(cost, kind, index);
    const std::uint32_t route = flow_of(kind, index);
    if (cost == 0) {
      flows_->pass(route);
      return schedule(cost, kind, index);
    }
    const std::uint32_t flow = flows_->begin(route, cost, now_.time);
    numbers_[route] = flow;
    if (flow >= routes_.size()) routes_.resize(flow + 1);
    routes_[flow] = route;
  }

  /// Once all of an instant has happened, those in flight and those that compute get their rates.
  void settle() {
    if (!events_.empty() && events_.top().at.time == now_.time) return;
    devices_.settle([this](RankId rank) { change_speed(rank); });
    if (flows_ != nullptr) settle_flows();
  }

  void settle_flows() {
    const auto messages = static_cast<std::uint32_t>(messages_.size());
    for (const Flows::End& end : flows_->settle(now_.time)) {
      const std::uint32_t route = routes_[end.flow];
      const bool is_message = route < messages;
      events_.push({{end.at, 0},
                    is_message ? EventKind::message_out : EventKind::match_over,
                    is_message ? route : route - messages});
    }
  }

  /// Whether this is not the end of a flow whose rate has changed since.
  [[nodiscard]] bool is_current(const Event& event) {
    if (!is_flow(event.kind, event.index)) return true;
    std::uint32_t& number = numbers_[flow_of(event.kind, event.index)];
    if (number == kNoNumber) return true;  // it took no time
    if (number == kOver || !flows_->ends(number, now_.time)) return false;
    flows_->finish(std::exchange(number, kOver), now_.time);
    return true;
  }

  void begin_if_possible(std::uint32_t index) {
    const Message& message = graph_.messages[index];
    const bool rendezvous = !graph_.capabilities.credits;
    const bool in_order = message.previous < 0 || messages_[static_cast<std::size_t>(message.previous)].out;
    const bool has_credit =
        message.credit < 0 || messages_[static_cast<std::size_t>(message.credit)].received;
    const bool ends_started = started(message.send) && (!rendezvous || started(message.receive));
    if (messages_[index].begun || !ends_started || !in_order || !has_credit) return;
    messages_[index].begun = true;
    const Action& send = program_.all_actions()[message.send_action];
    move(costs_.costs(cost_class_of(send)), EventKind::message_out, index);
  }

  void happen(const Event& event) {
    if (!is_current(event)) return;
    switch (event.kind) {
      case EventKind::work_done:
        return finish_work(InstructionId(static_cast<std::int32_t>(event.index)));
      case EventKind::message_out:
        return leave(event.index);
      case EventKind::message_received:
        return receive(event.index);
      case EventKind::match_over:
        for (const InstructionId member : graph_.members_of(graph_.matches[event.index])) complete(member);
        return;
    }
  }

  void leave(std::uint32_t index) {
    const Message& message = graph_.messages[index];
    messages_[index].out = true;
    finish_end(message.send);
    if (started(message.receive)) receive(index);
    const std::uint32_t next = index + 1;
    const bool same_channel =
        next < messages_.size() && graph_.messages[next].previous == static_cast<std::int32_t>(index);
    if (same_channel) begin_if_possible(next);
  }

  void receive(std::uint32_t index) {
    messages_[index].received = true;
    finish_end(graph_.messages[index].receive);
    if (!graph_.capabilities.credits) return;
    const std::size_t next = index + static_cast<std::size_t>(*graph_.capabilities.credits);
    const bool waits =
        next < messages_.size() && graph_.messages[next].credit == static_cast<std::int32_t>(index);
    if (waits) begin_if_possible(static_cast<std::uint32_t>(next));
  }

  void finish_end(InstructionId id) {
    if (--open_messages_[id.index()] == 0) complete(id);
  }

  void complete(InstructionId id) {
    state_.complete[id.index()] = 1;
    trace_.spans[id].end = now_;
    ++completed_;
    if (communicates(id)) ++places_[program_.rank_of(id)];
    count_kernel(id, -1);
    for (const InstructionId successor : successors_[id.index()]) {
      if (--open_waits_[successor.index()] == 0) ready_.insert(successor);
    }
  }

  const Program& program_;
  const ExecutionGraph& graph_;
  ContendedCosts costs_;
  Flows* flows_;  ///< null: no links are shared
  DeviceLoads devices_;
  bool shares_devices_;
  RunState state_;
  TimedTrace trace_;
  std::vector<MessageState> messages_;
  IdVector<RankId, int> places_;  ///< free ones
  IdVector<RankId, Kernels> kernels_;
  IdVector<RankId, Computing> computing_;
  static constexpr std::uint32_t kNoNumber = UINT32_MAX;
  static constexpr std::uint32_t kOver = UINT32_MAX - 1;
  std::vector<std::uint32_t> numbers_;  ///< of messages and matches among the flows in flight
  std::vector<std::uint32_t> routes_;   ///< the way back
  std::vector<std::size_t> open_waits_;
  std::vector<std::size_t> open_messages_;
  std::vector<std::uint32_t> open_members_;
  std::vector<std::vector<InstructionId>> successors_;
  std::set<InstructionId> ready_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  Instant now_;
  std::size_t completed_ = 0;
};

}  // namespace

Expected<SimulatedRun> run_by_events(const Program& program, const ExecutionGraph& graph,
                                     const ContendedCosts& costs, const Shared& shared) {
  PPSIM_RETURN_IF_ERROR(check_durations(program, costs, shared.devices));
  if (std::optional<Stuck> mismatched = find_mismatches(program, graph))
    return SimulatedRun(tl::unexpect, *std::move(mismatched));
  return EventRun(program, graph, costs, shared).run();
}

}  // namespace ppsim::simulator
