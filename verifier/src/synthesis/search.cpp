#include "synthesis/search.hpp"

#include <algorithm>

#include "limits.hpp"
#include "ppsim/core/ir/check.hpp"
#include "synthesis/greedy_rows.hpp"

namespace ppsim::verifier::synthesis {
namespace {

constexpr Slot kMaxVariables = 400'000;     // of a question that is still put
constexpr Slot kDirectVariables = 120'000;  // of a question that needs no rounding of costs
constexpr Slot kRoundedVariables = 30'000;  // of a question with rounded costs
constexpr Slot kShortVariables = 8'000;     // of a question that needs no repetend
constexpr int kTriesPerRate = 6;
constexpr double kShare = 0.5;  // of the time that is left, for a question behind which others wait

}  // namespace

Search::Search(const SynthesisRequest& request, Clock::time_point deadline)
    : request_(request),
      deadline_(deadline),
      incumbent_(request),
      model_(request, common_unit(request)),
      relaxation_(relax(model_)),
      lower_(relaxation_.lower_bound) {}

bool Search::late() const { return Clock::now() >= deadline_ || (request_.stopped && request_.stopped()); }

void Search::tell() {
  const std::pair now(incumbent_.value(), lower_bound());
  if (!request_.progress || now == told_) return;
  told_ = now;
  request_.progress({incumbent_.schedule(), incumbent_.value(), lower_bound()});
}

Clock::time_point Search::within(double share) const {
  const auto left = deadline_ - Clock::now();
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(left * share);
}

Slot Search::reached(const ChainModel& model) const {
  return (incumbent_.value() + model.unit() - 1) / model.unit();
}

QueryTitle Search::title_of(const StartQuestion& question) const {
  const ChainModel& model = question.model;
  const auto time = [&](Slot slots) { return std::to_string(slots * model.unit()) + "ns"; };
  const auto objective = std::string(objective_name(request_.objective));
  QueryTitle title{objective + "-at-most-" + time(question.bound),
                   std::to_string(model.ranks()) + " ranks, " + std::to_string(model.microbatches()) +
                       " microbatches, at most " + std::to_string(model.limit()) +
                       " live; durations in multiples of " + time(1),
                   "Can all actions start so that the " + objective + " is at most " + time(question.bound),
                   "QF_UF"};
  if (const auto& repetition = question.repetition) {
    title.name += "-periodic";
    title.question += " and the state at " + time(repetition->cut) + " comes again " +
                      time(repetition->period) + " and " + std::to_string(repetition->microbatches) +
                      " microbatches later";
  }
  title.question += "?";
  return title;
}

StartTimes Search::ask(const StartQuestion& question, double share) {
  if (question_size(question) > kMaxVariables)
    return {.reason = "more than " + std::to_string(kMaxVariables) + " " + kStartTimesLimit};
  ++queries_;
  tell();
  return find_start_times(
      question,
      {title_of(question),
       within(share),
       {.memory_budget = request_.memory_budget, .queries = request_.queries, .stopped = request_.stopped}});
}

void Search::run() {
  if (!request_.kept_order) {
    for (const Schedule& schedule : request_.known) incumbent_.offer_known(schedule);
  }
  for (const Preference& preference : preferences(model_)) {
    if (incumbent_.empty() || (!done() && !late()))
      incumbent_.offer(greedy_rows(model_, preference), {"greedy", {}});
  }
  tell();
  if (done()) return;
  const Slot size = question_size({model_, relaxation_, lower_});
  if (size > kShortVariables) repeat({model_, relaxation_});
  if (size > kDirectVariables && !done()) look_at_rounded_costs();
  if (!done()) decide();
  tell();
}

void Search::look_at_rounded_costs() {
  const Slot size = question_size({model_, relaxation_, lower_});
  const ChainModel model(request_, model_.unit() * (size / kRoundedVariables + 1));
  const Relaxation relaxation = relax(model);
  repeat({model, relaxation});
  if (!done()) climb({model, relaxation});
}

void Search::repeat(const Stage& stage) {
  if (request_.kept_order) return;  // need not have a period
  for (const Rate& rate : possible_rates(stage.model)) {
    if (done() || late()) return;
    if (short_length(stage.model, rate) > 0) try_rate(stage, rate);
  }
}

void Search::try_rate(const Stage& stage, const Rate& rate) {
  SynthesisRequest request = request_;
  request.microbatches = short_length(stage.model, rate);
  const ChainModel model(request, stage.model.unit());
  const Relaxation relaxation = relax(model);
  const Slot rounds = (request_.microbatches - request.microbatches) / rate.microbatches;
  const Slot repeated = rounds * rate.period;
  Slot bound = std::max(relaxation.lower_bound, stage.relaxation.lower_bound - repeated);
  Slot step = 1;
  for (int i = 0; i < kTriesPerRate && bound + repeated < reached(stage.model); ++i) {
    if (question_size({model, relaxation, bound}) > kRoundedVariables) return;
    const Repetition repetition{rate.microbatches, rate.period, (bound - rate.period) / 2};
    const StartTimes answer = ask({model, relaxation, bound, repetition}, kShare / 2);
    if (answer.outcome == StartTimes::Outcome::unknown) return;
    if (answer.outcome == StartTimes::Outcome::found) {
      incumbent_.offer(rows_of(stage.model, unrolled({model, answer.starts, repetition}, stage.model)),
                       {"repetend", {}});
      return;
    }
    bound += step;
    step *= 2;
  }
}

/// Asks for more and more time until rounded costs fit; what comes of it is timed with the true ones.
void Search::climb(const Stage& stage) {
  Slot bound = stage.relaxation.lower_bound;
  for (Slot step = 1; bound < 2 * stage.relaxation.lower_bound && !late(); step *= 2) {
    const StartTimes answer = ask({stage.model, stage.relaxation, bound}, kShare);
    if (answer.outcome == StartTimes::Outcome::unknown) return;
    if (answer.outcome == StartTimes::Outcome::found) {
      incumbent_.offer(rows_of(stage.model, answer.starts), {"rounded costs", {}});
      return;
    }
    bound += step;
  }
}

/// Puts one bound to Z3. Returns: whether another question makes sense; `found` when a schedule was.
bool Search::decide_bound(Slot bound, bool& found) {
  const bool last = bound + 1 >= reached(model_) && bound == lower_;
  const StartTimes answer = ask({model_, relaxation_, bound}, last ? 1 : kShare);
  switch (answer.outcome) {
    case StartTimes::Outcome::found: {
      incumbent_.offer(rows_of(model_, answer.starts), {"time-indexed", bound * model_.unit()});
      found = true;
      return true;
    }
    case StartTimes::Outcome::none:
      lower_ = bound + 1;
      bound_method_ = "time-indexed";
      return true;
    case StartTimes::Outcome::unknown:
      open_ = answer.reason;
      return late() || answer.reason == kTimeLimit;
  }
  return false;
}

/// Bounds from the lower one up in growing steps, then between the last that failed and the best that was
/// found; a bound that is not decided in its share of the time is asked again later.
void Search::decide() {
  while (!done() && !late()) {
    Slot floor = lower_;
    Slot step = 0;
    bool found = false;
    while (floor < reached(model_) && !late()) {
      const Slot most = reached(model_) - 1;
      const Slot bound = found ? floor + (most - floor) / 2 : std::min(floor + step, most);
      const Nanoseconds before = incumbent_.value();
      if (!decide_bound(bound, found)) return;
      if (incumbent_.value() == before) floor = bound + 1;
      step = std::max<Slot>(1, 2 * step);
    }
  }
  if (!done()) open_ = kTimeLimit;
}

}  // namespace ppsim::verifier::synthesis
