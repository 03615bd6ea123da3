#include "happens_before_maker.hpp"

#include <algorithm>
#include <map>

namespace ppsim {
namespace {

/// The first queue of an instruction.
int first_queue(const Program& program, InstructionId id) {
  const auto actions = program.actions(id);
  const auto communicators = program.communicators_of(id);
  int queue = program.queue_of(actions[0], communicators[0]);
  for (std::size_t i = 1; i < actions.size(); ++i) {
    queue = std::min(queue, program.queue_of(actions[i], communicators[i]));
  }
  return queue;
}

}  // namespace

HappensBeforeMaker::HappensBeforeMaker(const Program& program, const ExecutionGraph& graph, RankId rank)
    : last_(program.last(rank)), parts_(program, graph, rank) {
  result_.first_ = program.first(rank);
  number_tracks(program);
  known_.resize(tracks_.size() * tracks_.size(), 0);
  const std::size_t cells = result_.track_.size() * tracks_.size();
  result_.before_start_.resize(cells);
  result_.before_end_.resize(cells);
}

void HappensBeforeMaker::number_tracks(const Program& program) {
  std::map<int, int> track_of_queue;
  for (InstructionId id = result_.first_; id < last_; id = next(id))
    track_of_queue[first_queue(program, id)] = 0;
  for (auto& [queue, track] : track_of_queue) track = result_.tracks_++;
  tracks_.resize(track_of_queue.size());
  for (InstructionId id = result_.first_; id < last_; id = next(id)) {
    const int track = track_of_queue[first_queue(program, id)];
    std::vector<InstructionId>& list = tracks_[as_size(track)];
    result_.track_.push_back(track);
    result_.index_in_track_.push_back(static_cast<std::int32_t>(list.size()));
    list.push_back(id);
  }
}

HappensBefore HappensBeforeMaker::make(const ClockPlan& plan) {
  plan.run(parts_, [this](ClockEvent event, std::uint32_t subject, ClockView clock) {
    const bool ends = event == ClockEvent::work || event == ClockEvent::complete;
    if (!ends && event != ClockEvent::start) return;
    const InstructionId id(static_cast<std::int32_t>(subject));
    if (is_own(id)) record(id, clock, ends ? result_.before_end_ : result_.before_start_);
  });
  return std::move(result_);
}

/// Instructions of a track start and complete in turn, so what is known at one is known at the next.
void HappensBeforeMaker::record(InstructionId id, ClockView clock, std::vector<std::int32_t>& rows) {
  std::int32_t* known = known_.data() + as_size(result_.track_of(id)) * tracks_.size();
  for (std::size_t l = 0; l < tracks_.size(); ++l) {
    const std::vector<InstructionId>& track = tracks_[l];
    auto count = as_size(known[l]);
    while (count < track.size() && is_over(track[count], clock)) ++count;
    known[l] = static_cast<std::int32_t>(count);
  }
  std::copy_n(known, tracks_.size(), rows.begin() + static_cast<std::ptrdiff_t>(result_.row(id)));
}

bool HappensBeforeMaker::is_over(InstructionId id, ClockView clock) const {
  const auto own = parts_.of(id);
  return std::ranges::all_of(own,
                             [&](const ClockPart& part) { return clock[as_size(part.track)] >= part.count; });
}

}  // namespace ppsim
