#include "synthesis/start_times.hpp"

#include <algorithm>

namespace ppsim::verifier::synthesis {
namespace {

constexpr Slot kMany = Slot{1} << 40;  // more than any question may have

class StartEncoding {
 public:
  explicit StartEncoding(const StartQuestion& question) : question_(question), model_(question.model) {}

  Clauses build() {
    number_starts();
    for (const Precedence& p : model_.precedences()) precede(p);
    for (int r = 0; r < model_.ranks(); ++r) {
      run_one_at_a_time(r);
      if (model_.stages_of(r).size() > 1) find_room(r);
    }
    if (question_.repetition) repeat(*question_.repetition);
    return std::move(clauses_);
  }

  [[nodiscard]] std::vector<Slot> starts(const std::vector<bool>& values) const {
    std::vector<Slot> result;
    for (int task = 0; task < model_.tasks(); ++task) {
      Slot start = first(task);
      while (start < last(task) && values[as_size(at_least(task, start + 1).number())]) ++start;
      result.push_back(start);
    }
    return result;
  }

 private:
  [[nodiscard]] Slot first(int task) const { return question_.relaxation.head[as_size(task)]; }
  [[nodiscard]] Slot last(int task) const {
    return question_.relaxation.latest(model_, task, question_.bound);
  }

  /// The task starts at `time` or later.
  [[nodiscard]] Literal at_least(int task, Slot time) const {
    if (time <= first(task)) return Literal::constant(true);
    if (time > last(task)) return Literal::constant(false);
    return Literal::variable(offsets_[as_size(task)] + static_cast<int>(time - first(task)) - 1);
  }

  void number_starts() {
    for (int task = 0; task < model_.tasks(); ++task) {
      offsets_.push_back(clauses_.new_variables(static_cast<int>(last(task) - first(task))));
      for (Slot t = first(task) + 1; t < last(task); ++t)
        clauses_.add({!at_least(task, t + 1), at_least(task, t)});
    }
  }

  void precede(const Precedence& p) {
    for (Slot t = first(p.before); t <= last(p.before); ++t)
      clauses_.add({!at_least(p.before, t), at_least(p.after, t + p.lag)});
  }

  void run_one_at_a_time(int rank) {
    const auto [begin, end] = horizon(rank);
    std::vector<std::vector<Literal>> running;
    for (const int stage : model_.stages_of(rank)) {
      for (int phase = 0; phase < model_.phases(); ++phase) {
        running.emplace_back(as_size(end - begin), Literal::constant(false));
        for (int i = 0; i < model_.microbatches(); ++i)
          announce(model_.task(stage, phase, i), begin, running.back());
      }
    }
    for (std::size_t a = 0; a < running.size(); ++a) {
      for (std::size_t b = a + 1; b < running.size(); ++b) {
        for (std::size_t t = 0; t < running[a].size(); ++t) clauses_.add({!running[a][t], !running[b][t]});
      }
    }
  }

  /// Between which the tasks of a rank run.
  [[nodiscard]] std::pair<Slot, Slot> horizon(int rank) const {
    Slot begin = first(model_.task(model_.stages_of(rank).front(), 0, 0));
    Slot end = begin;
    for (const int stage : model_.stages_of(rank)) {
      begin = std::min(begin, first(model_.task(stage, 0, 0)));
      for (int phase = 0; phase < model_.phases(); ++phase) {
        const int final_task = model_.task(stage, phase, model_.microbatches() - 1);
        end = std::max(end, last(final_task) + model_.duration(final_task));
      }
    }
    return {begin, end};
  }

  /// Of the activations of several stages no more are live at a time than the limit: whenever an F may start.
  /// Those of one stage alone are precedences.
  void find_room(int rank) {
    const auto [begin, end] = horizon(rank);
    const int last_phase = model_.phases() - 1;
    const auto limit = static_cast<int>(model_.certain_rooms().capacity[as_size(rank)]);
    for (Slot t = begin; t < end; ++t) {
      std::vector<Literal> live;  // started, or not ended: both of each that is live
      int all = 0;
      for (const int stage : model_.stages_of(rank)) {
        for (int i = 0; i < model_.microbatches(); ++i, ++all) {
          const int weight = model_.task(stage, last_phase, i);
          live.push_back(!at_least(model_.task(stage, 0, i), t + 1));
          live.push_back(at_least(weight, t - model_.duration(weight) + 1));
        }
      }
      clauses_.add_at_most(live, limit + all);
    }
  }

  /// A task that has started, less than its duration ago, runs.
  void announce(int task, Slot begin, std::vector<Literal>& running) {
    const Slot duration = model_.duration(task);
    for (Slot t = first(task); t < last(task) + duration; ++t) {
      Literal& now = running[as_size(t - begin)];
      if (now.is_false()) now = clauses_.new_variable();
      clauses_.add({!at_least(task, t - duration + 1), at_least(task, t + 1), now});
    }
  }

  /// Microbatches before the first have started everything, those behind the last nothing.
  void repeat(const Repetition& repetition) {
    const int shift = repetition.microbatches;
    for (int row = 0; row < model_.strands(); ++row) {
      const int begin = row * model_.microbatches();
      for (int i = -shift; i < model_.microbatches(); ++i) {
        const bool starts_later = i + shift >= model_.microbatches();
        for (Slot t = repetition.cut - model_.longest_lag(); t <= repetition.cut; ++t) {
          const Literal now = i < 0 ? Literal::constant(false) : at_least(begin + i, t);
          const Literal then =
              starts_later ? Literal::constant(true) : at_least(begin + i + shift, t + repetition.period);
          clauses_.add({!now, then});
          clauses_.add({now, !then});
        }
      }
    }
  }

  const StartQuestion& question_;
  const ChainModel& model_;
  Clauses clauses_;
  std::vector<int> offsets_;
};

/// Whether some task has no time at all: then no encoding is needed.
bool impossible(const StartQuestion& question) {
  for (int task = 0; task < question.model.tasks(); ++task) {
    const Slot first = question.relaxation.head[as_size(task)];
    if (question.relaxation.latest(question.model, task, question.bound) < first) return true;
  }
  return false;
}

}  // namespace

Slot question_size(const StartQuestion& question) {
  Slot size = 0;
  for (int task = 0; task < question.model.tasks(); ++task) {
    const Slot first = question.relaxation.head[as_size(task)];
    size +=
        std::clamp<Slot>(question.relaxation.latest(question.model, task, question.bound) - first, 0, kMany);
  }
  return size;
}

StartTimes find_start_times(const StartQuestion& question, const Asking& asking) {
  if (impossible(question)) return {.outcome = StartTimes::Outcome::none};
  StartEncoding encoding(question);
  const ClauseAnswer answer = satisfy(encoding.build(), asking);
  switch (answer.outcome) {
    case ClauseAnswer::Outcome::satisfiable:
      return {.outcome = StartTimes::Outcome::found, .starts = encoding.starts(answer.values)};
    case ClauseAnswer::Outcome::unsatisfiable:
      return {.outcome = StartTimes::Outcome::none};
    case ClauseAnswer::Outcome::unknown:
      break;
  }
  return {.outcome = StartTimes::Outcome::unknown, .reason = answer.reason};
}

}  // namespace ppsim::verifier::synthesis
