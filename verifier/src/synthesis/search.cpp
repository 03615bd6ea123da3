#include "synthesis/search.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "limits.hpp"

namespace ppsim::verifier::synthesis {
namespace {

constexpr Slot kMaxVariables = 400'000;     // of a question that is still put
constexpr Slot kDirectVariables = 120'000;  // of a question that needs no rounding of costs
constexpr Slot kRoundedVariables = 30'000;  // of a question with rounded costs
constexpr Slot kShortVariables = 8'000;     // of a question that needs no repetend
constexpr int kTriesPerRate = 6;
// Orders that are tried before Z3 is asked, and with one stage on each rank where it cannot be.
constexpr std::int64_t kStepsBefore = 100'000;
constexpr std::int64_t kStepsInstead = 20'000'000;
constexpr double kShare = 0.5;  // of the time that is left, for a question behind which others wait

std::string too_many_start_times() {
  return "more than " + std::to_string(kMaxVariables) + " " + kStartTimesLimit;
}

/// Where stage s is not on rank s, the rank of each.
std::string ranks_of_stages(const ChainModel& model) {
  if (model.one_stage_each()) return {};
  std::string text = " on ranks";
  for (int s = 0; s < model.stages(); ++s) text += ' ' + std::to_string(model.rank_of_stage(s));
  return text;
}

}  // namespace

Search::Search(const SynthesisRequest& request, Clock::time_point deadline)
    : request_(request),
      deadline_(deadline),
      incumbent_(request),
      model_(request, common_unit(request)),
      relaxation_(relax(model_)),
      orders_(request, model_, relaxation_, incumbent_, [this] { tell(); }),
      lower_(relaxation_.lower_bound) {}

bool Search::late() const { return Clock::now() >= deadline_ || (request_.stopped && request_.stopped()); }

void Search::tell() {
  const std::pair now(incumbent_.value(), lower_bound());
  if (!request_.progress || incumbent_.empty() || now == told_) return;
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
                   std::to_string(model.ranks()) + " ranks, " + std::to_string(model.stages()) + " stages" +
                       ranks_of_stages(model) + ", " + std::to_string(model.microbatches()) +
                       " microbatches, at most " + std::to_string(request_.activation_limit) +
                       " live; durations in multiples of " + time(1),
                   "Can all actions start so that the " + objective + " is at most " + time(question.bound),
                   model.one_stage_each() ? "QF_UF" : "QF_LIA"};
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
  if (question_size(question) > kMaxVariables) return {.reason = too_many_start_times()};
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
  tell();
  orders_.make_lists(lower_);
  if (incumbent_.empty()) {
    open_ = orders_.why_none();
    return;
  }
  if (!done()) model_.one_stage_each() && !request_.bytes ? search_one_stage_each() : search_any_placement();
  if (done()) open_.clear();
  tell();
}

void Search::search_one_stage_each() {
  const Slot size = question_size({model_, relaxation_, lower_});
  if (request_.max_steps && !request_.kept_order) return search_orders(*request_.max_steps, 1);
  if (size > kMaxVariables) open_ = too_many_start_times();
  if (size > kShortVariables) {
    repeat({model_, relaxation_});
    search_orders(kStepsBefore, kShare);
  }
  if (size > kDirectVariables && !done()) look_at_rounded_costs();
  if (!done() && size <= kMaxVariables) decide();
  if (open_.ends_with(kStartTimesLimit)) search_orders(kStepsInstead, 1);
}

void Search::search_any_placement() {
  constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
  const bool asks = !request_.bytes && !request_.max_steps &&
                    question_size({model_, relaxation_, lower_}) <= kRoundedVariables;
  search_orders(request_.max_steps.value_or(asks ? kStepsBefore : kAll), asks ? kShare : 1);
  if (!asks || done()) return;
  const Clock::time_point end = std::exchange(deadline_, within(kShare));
  decide();
  deadline_ = end;
  if (!done()) search_orders(kAll, 1);
}

void Search::search_orders(std::int64_t steps, double share) {
  if (request_.kept_order) return;
  const Clock::time_point end = within(share);
  Effort effort(steps, [&] { return Clock::now() >= end || (request_.stopped && request_.stopped()); });
  orders_.run(lower_, effort);
  steps_ += effort.taken();
  if (open_.empty()) open_ = late() ? kTimeLimit : kStepsLimit;
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
