#include "synthesis/start_times.hpp"

#include <algorithm>

#include "ppsim/core/ir/check.hpp"

namespace ppsim::verifier::synthesis {
namespace {

class StartEncoding {
 public:
  explicit StartEncoding(const StartQuestion& question) : question_(question), model_(question.model) {}

  Clauses build() {
    number_starts();
    for (const Precedence& p : model_.precedences()) precede(p);
    for (int r = 0; r < model_.ranks(); ++r) run_one_at_a_time(r);
    if (question_.repetition) repeat(*question_.repetition);
    return std::move(clauses_);
  }

  [[nodiscard]] std::vector<Slot> starts(const std::vector<bool>& values) const {
    std::vector<Slot> result;
    for (int task = 0; task < model_.tasks(); ++task) {
      Slot start = first(task);
      while (start < last(task) && values[static_cast<std::size_t>(at_least(task, start + 1).number())])
        ++start;
      result.push_back(start);
    }
    return result;
  }

 private:
  [[nodiscard]] Slot first(int task) const {
    return question_.relaxation.head[static_cast<std::size_t>(task)];
  }
  [[nodiscard]] Slot last(int task) const {
    return question_.relaxation.latest(model_, task, question_.bound);
  }

  /// The task starts at `time` or later.
  [[nodiscard]] Literal at_least(int task, Slot time) const {
    if (time <= first(task)) return Literal::constant(true);
    if (time > last(task)) return Literal::constant(false);
    return Literal::variable(offsets_[static_cast<std::size_t>(task)] + static_cast<int>(time - first(task)) -
                             1);
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
    const int m = model_.microbatches();
    Slot begin = first(model_.task(rank, 0, 0));
    Slot end = begin;
    for (int phase = 0; phase < model_.phases(); ++phase) {
      const int final_task = model_.task(rank, phase, m - 1);
      end = std::max(end, last(final_task) + model_.duration(final_task));
    }
    std::vector<std::vector<Literal>> running(static_cast<std::size_t>(model_.phases()));
    for (int phase = 0; phase < model_.phases(); ++phase) {
      auto& at = running[static_cast<std::size_t>(phase)];
      at.assign(static_cast<std::size_t>(end - begin), Literal::constant(false));
      for (int i = 0; i < m; ++i) announce(model_.task(rank, phase, i), begin, at);
    }
    for (std::size_t a = 0; a < running.size(); ++a) {
      for (std::size_t b = a + 1; b < running.size(); ++b) {
        for (std::size_t t = 0; t < running[a].size(); ++t) clauses_.add({!running[a][t], !running[b][t]});
      }
    }
  }

  /// A task that has started, less than its duration ago, runs.
  void announce(int task, Slot begin, std::vector<Literal>& running) {
    const Slot duration = model_.duration(task);
    for (Slot t = first(task); t < last(task) + duration; ++t) {
      Literal& now = running[static_cast<std::size_t>(t - begin)];
      if (now.is_false()) now = clauses_.new_variable();
      clauses_.add({!at_least(task, t - duration + 1), at_least(task, t + 1), now});
    }
  }

  /// Microbatches before the first have started everything, those behind the last nothing.
  void repeat(const Repetition& repetition) {
    const int shift = repetition.microbatches;
    for (int row = 0; row < model_.ranks() * model_.phases(); ++row) {
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
    const Slot first = question.relaxation.head[static_cast<std::size_t>(task)];
    if (question.relaxation.latest(question.model, task, question.bound) < first) return true;
  }
  return false;
}

}  // namespace

Slot question_size(const StartQuestion& question) {
  Slot size = 0;
  for (int task = 0; task < question.model.tasks(); ++task) {
    const Slot first = question.relaxation.head[static_cast<std::size_t>(task)];
    size += std::max<Slot>(0, question.relaxation.latest(question.model, task, question.bound) - first);
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
