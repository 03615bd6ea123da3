#include "ppsim/core/execution/naive_executor.hpp"

#include <algorithm>
#include <set>

#include "naive_meaning.hpp"

namespace ppsim {
namespace {

/// How far a run has come, and what may happen next by E1 to E9.
class NaiveState {
 public:
  NaiveState(const NaiveMeaning& meaning, const TransportCapabilities& capabilities)
      : meaning_(&meaning),
        capabilities_(&capabilities),
        started_(meaning.instructions.size(), false),
        complete_(meaning.instructions.size(), false),
        begun_(meaning.messages.size(), false),
        sent_(meaning.messages.size(), false),
        received_(meaning.messages.size(), false),
        met_(meaning.matches.size(), false) {}

  [[nodiscard]] const std::vector<bool>& started() const { return started_; }
  [[nodiscard]] const std::vector<bool>& complete() const { return complete_; }
  [[nodiscard]] bool all_complete() const { return std::ranges::find(complete_, false) == complete_.end(); }

  /// E3 and E9; `waits` holds the rest of E1, E2 and E6.
  [[nodiscard]] bool may_start(std::size_t i) const {
    const NaiveInstruction& instruction = meaning_->instructions[i];
    if (started_[i] || instruction.never) return false;
    if (instruction.launched_after.valid() && !has_started(instruction.launched_after)) return false;
    return std::ranges::all_of(instruction.waits, [&](InstructionId id) { return complete_[id.index()]; }) &&
           has_place(instruction);
  }

  /// E5 and, for several messages of one group, E6.
  [[nodiscard]] bool may_begin(std::size_t m) const {
    const NaiveMessage& message = meaning_->messages[m];
    if (begun_[m] || !has_started(message.send)) return false;
    if (message.previous >= 0 && !sent_[as_size(message.previous)]) return false;
    return capabilities_->credits ? unreceived_before(message) < *capabilities_->credits
                                  : has_started(message.receive);
  }

  [[nodiscard]] bool may_be_received(std::size_t m) const {
    const NaiveMessage& message = meaning_->messages[m];
    if (received_[m] || !sent_[m] || !has_started(message.receive)) return false;
    return message.previous < 0 || received_[as_size(message.previous)];
  }

  /// E7.
  [[nodiscard]] bool may_meet(std::size_t c) const {
    const NaiveMatch& match = meaning_->matches[c];
    return !met_[c] && match.members.size() == match.expected &&
           std::ranges::all_of(match.members, [&](InstructionId id) { return has_started(id); });
  }

  /// True when every message and match of a started communication instruction is over.
  [[nodiscard]] bool parts_over(std::size_t i) const {
    const NaiveInstruction& instruction = meaning_->instructions[i];
    return std::ranges::all_of(instruction.sends, [&](auto m) { return sent_[m]; }) &&
           std::ranges::all_of(instruction.receives, [&](auto m) { return received_[m]; }) &&
           (instruction.match < 0 || met_[as_size(instruction.match)]);
  }

  void start(std::size_t i) { started_[i] = true; }
  void complete(std::size_t i) { complete_[i] = true; }
  void begin(std::size_t m) { begun_[m] = true; }
  void meet(std::size_t c) { met_[c] = true; }
  void receive(std::size_t m) { received_[m] = true; }
  void send(std::size_t m) {
    sent_[m] = true;
    if (!capabilities_->credits) received_[m] = true;
  }

 private:
  [[nodiscard]] bool has_started(InstructionId id) const { return id.valid() && started_[id.index()]; }

  [[nodiscard]] int unreceived_before(const NaiveMessage& message) const {
    int unreceived = 0;
    for (int m = message.previous; m >= 0; m = meaning_->messages[as_size(m)].previous) {
      if (!received_[as_size(m)]) ++unreceived;
    }
    return unreceived;
  }

  /// E8.
  [[nodiscard]] bool has_place(const NaiveInstruction& instruction) const {
    if (!instruction.communication || !capabilities_->residency) return true;
    int taken = 0;
    for (std::size_t i = 0; i < started_.size(); ++i) {
      const NaiveInstruction& other = meaning_->instructions[i];
      if (other.rank == instruction.rank && other.communication && started_[i] && !complete_[i]) ++taken;
    }
    return taken < *capabilities_->residency;
  }

  const NaiveMeaning* meaning_;
  const TransportCapabilities* capabilities_;
  std::vector<bool> started_;
  std::vector<bool> complete_;
  std::vector<bool> begun_;
  std::vector<bool> sent_;
  std::vector<bool> received_;
  std::vector<bool> met_;
};

constexpr Instant kNever{-1, 0};

/// One run, instant by instant and delta cycle by delta cycle.
class TimedNaiveRun {
 public:
  TimedNaiveRun(const NaiveMeaning& meaning, const TransportCapabilities& capabilities)
      : meaning_(meaning),
        state_(meaning, capabilities),
        work_due_(meaning.instructions.size(), kNever),
        message_due_(meaning.messages.size(), kNever),
        match_due_(meaning.matches.size(), kNever) {
    trace_.spans = TimedTrace::Spans(meaning.instructions.size(), Span{kNever, kNever});
  }

  NaiveRun run() {
    for (bool more = true; more; more = advance()) {
      completions();
      starts();
    }
    NaiveRun result;
    for (std::size_t i = 0; i < meaning_.instructions.size(); ++i) {
      if (!state_.complete()[i]) result.incomplete.emplace_back(static_cast<std::int32_t>(i));
    }
    result.outcome = result.incomplete.empty() ? NaiveRun::Outcome::finished : NaiveRun::Outcome::deadlock;
    result.trace = std::move(trace_);
    return result;
  }

 private:
  /// Zero-duration work is due in the next delta cycle.
  [[nodiscard]] Instant due_after(Nanoseconds duration) const {
    if (duration == 0) return {now_.time, now_.delta + 1};
    return {checked_add(now_.time, duration), 0};
  }

  void completions() {
    for (std::size_t m = 0; m < message_due_.size(); ++m) {
      if (message_due_[m] == now_) state_.send(m);
    }
    // Messages that arrive now, and those that had arrived when their RECV started.
    for (std::size_t m = 0; m < message_due_.size(); ++m) {
      if (state_.may_be_received(m)) state_.receive(m);
    }
    for (std::size_t c = 0; c < match_due_.size(); ++c) {
      if (match_due_[c] == now_) state_.meet(c);
    }
    for (std::size_t i = 0; i < work_due_.size(); ++i) {
      if (!state_.started()[i] || state_.complete()[i]) continue;
      const bool over = meaning_.instructions[i].communication ? state_.parts_over(i) : work_due_[i] == now_;
      if (over) complete(i);
    }
  }

  void complete(std::size_t i) {
    state_.complete(i);
    trace_.spans[InstructionId(static_cast<std::int32_t>(i))].end = now_;
  }

  void starts() {
    for (std::size_t i = 0; i < work_due_.size(); ++i) {
      if (!state_.may_start(i)) continue;
      state_.start(i);
      trace_.spans[InstructionId(static_cast<std::int32_t>(i))].start = now_;
      work_due_[i] = due_after(meaning_.instructions[i].duration);
    }
    for (std::size_t m = 0; m < message_due_.size(); ++m) {
      if (!state_.may_begin(m)) continue;
      state_.begin(m);
      message_due_[m] = due_after(meaning_.messages[m].duration);
    }
    for (std::size_t c = 0; c < match_due_.size(); ++c) {
      if (state_.may_meet(c) && match_due_[c] == kNever) {
        match_due_[c] = due_after(meaning_.matches[c].duration);
      }
    }
  }

  /// To the next instant or delta cycle at which something is due; false when nothing is.
  bool advance() {
    Instant next = kNever;
    const auto consider = [&](Instant due) {
      if (due > now_ && (next == kNever || due < next)) next = due;
    };
    for (std::size_t i = 0; i < work_due_.size(); ++i) {
      if (!meaning_.instructions[i].communication) consider(work_due_[i]);
    }
    for (const Instant due : message_due_) consider(due);
    for (const Instant due : match_due_) consider(due);
    for (std::size_t m = 0; m < message_due_.size(); ++m) {
      if (state_.may_be_received(m)) consider(due_after(0));
    }
    if (next == kNever) return false;
    now_ = next;
    return true;
  }

  const NaiveMeaning& meaning_;
  NaiveState state_;
  Instant now_;
  std::vector<Instant> work_due_;     ///< compute and copy
  std::vector<Instant> message_due_;  ///< when the message is out
  std::vector<Instant> match_due_;
  TimedTrace trace_;
};

/// Visits every way to hand out the places of E8. Completions and starts that need no place disable nothing,
/// so they are taken at once: the communication that has started says where a run is.
class Arbitrations {
 public:
  Arbitrations(const NaiveMeaning& meaning, const TransportCapabilities& capabilities,
               std::size_t state_limit, const std::function<bool()>& stop)
      : meaning_(meaning),
        limited_(capabilities.residency.has_value()),
        state_limit_(state_limit),
        stop_(stop),
        first_(meaning, capabilities) {}

  Exploration run() {
    std::vector<NaiveState> open{first_};
    std::set<std::vector<bool>> seen;
    while (!open.empty()) {
      NaiveState state = std::move(open.back());
      open.pop_back();
      if (!settle(state)) return {};
      if (!seen.insert(state.started()).second) continue;
      if (seen.size() > state_limit_) return {};
      const std::vector<std::size_t> choices = startable(state);
      if (choices.empty() && !state.all_complete())
        return {true, HungState{state.started(), state.complete()}};
      for (const std::size_t i : choices) {
        open.push_back(state);
        open.back().start(i);
      }
    }
    return {true, std::nullopt};
  }

 private:
  [[nodiscard]] std::vector<std::size_t> startable(const NaiveState& state) const {
    std::vector<std::size_t> result;
    for (std::size_t i = 0; i < meaning_.instructions.size(); ++i) {
      if (state.may_start(i)) result.push_back(i);
    }
    return result;
  }

  /// False when it was stopped.
  [[nodiscard]] bool settle(NaiveState& state) const {
    while (!stop_()) {
      if (!step(state)) return true;
    }
    return false;
  }

  /// Everything that can be taken at once; false when nothing could.
  bool step(NaiveState& state) const {
    bool moved = false;
    for (std::size_t m = 0; m < meaning_.messages.size(); ++m) {
      if (state.may_begin(m)) {
        state.begin(m);
        state.send(m);
        moved = true;
      }
      if (state.may_be_received(m)) {
        state.receive(m);
        moved = true;
      }
    }
    for (std::size_t c = 0; c < meaning_.matches.size(); ++c) {
      if (!state.may_meet(c)) continue;
      state.meet(c);
      moved = true;
    }
    for (std::size_t i = 0; i < meaning_.instructions.size(); ++i) moved |= step(state, i);
    return moved;
  }

  bool step(NaiveState& state, std::size_t i) const {
    const bool arbitrated = limited_ && meaning_.instructions[i].communication;
    if (!arbitrated && state.may_start(i)) {
      state.start(i);
      return true;
    }
    if (state.started()[i] && !state.complete()[i] && state.parts_over(i)) {
      state.complete(i);
      return true;
    }
    return false;
  }

  const NaiveMeaning& meaning_;
  bool limited_;
  std::size_t state_limit_;
  const std::function<bool()>& stop_;
  NaiveState first_;
};

}  // namespace

NaiveRun run_naively(const Program& program, const TransportCapabilities& capabilities,
                     const CostTable& costs) {
  const NaiveMeaning meaning = naive_meaning(program, capabilities, costs);
  if (!meaning.mismatch) return TimedNaiveRun(meaning, capabilities).run();
  NaiveRun result;
  result.outcome = NaiveRun::Outcome::mismatch;
  for (const InstructionId id : program.ids()) result.incomplete.push_back(id);
  result.trace.spans = TimedTrace::Spans(program.size(), Span{kNever, kNever});
  return result;
}

Exploration find_hung_state(const Program& program, const TransportCapabilities& capabilities,
                            std::size_t state_limit, const std::function<bool()>& stop) {
  const NaiveMeaning meaning = naive_meaning(program, capabilities, CostTable());
  if (meaning.mismatch) return {true, std::nullopt};
  return Arbitrations(meaning, capabilities, state_limit, stop).run();
}

std::optional<bool> can_deadlock(const Program& program, const TransportCapabilities& capabilities,
                                 std::size_t state_limit, const std::function<bool()>& stop) {
  const Exploration found = find_hung_state(program, capabilities, state_limit, stop);
  if (!found.whole) return std::nullopt;
  return found.hung.has_value();
}

}  // namespace ppsim
