#include "happens_before_maker.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "ppsim/core/check.hpp"

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

std::vector<RankId> ranks_of_instructions(const Program& program) {
  std::vector<RankId> ranks;
  for (int r = 0; r < program.pipeline().ranks(); ++r) {
    ranks.resize(program.last(RankId(r)).index(), RankId(r));
  }
  return ranks;
}

IdVector<RankId, std::vector<std::uint32_t>> places_by_rank(const std::vector<RankId>& rank_of,
                                                            std::size_t ranks, const RunOrder& order) {
  IdVector<RankId, std::vector<std::uint32_t>> places(ranks);
  for (std::uint32_t place = 0; place < order.items.size(); ++place) {
    places[rank_of[order.items[place] / 2]].push_back(place);
  }
  return places;
}

IdVector<RankId, std::vector<RankId>> ranks_nearby(const std::vector<RankId>& rank_of, std::size_t ranks,
                                                   const ExecutionGraph& graph) {
  IdVector<RankId, std::vector<RankId>> near(ranks);
  for (std::size_t r = 0; r < ranks; ++r) near[RankId(static_cast<int>(r))].emplace_back(static_cast<int>(r));
  for (const Message& message : graph.messages) {
    if (message.previous >= 0) continue;  // one for each channel will do
    const RankId from = rank_of[message.send.index()];
    const RankId to = rank_of[message.receive.index()];
    near[from].push_back(to);
    near[to].push_back(from);
  }
  for (std::vector<RankId>& list : near) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
  return near;
}

RankId after(RankId rank) { return RankId(rank.value() + 1); }

}  // namespace

/// Takes down how far the lanes of the rank have come when an instruction of it starts and completes.
class HappensBeforeMaker::Recorder {
 public:
  Recorder(const Program& program, const RankParts& parts, RankId rank)
      : parts_(parts), rank_(rank), last_(program.last(rank)) {
    result_.first_ = program.first(rank);
    number_lanes(program);
    known_.resize(lanes_.size() * lanes_.size(), 0);
    const std::size_t cells = result_.lane_.size() * lanes_.size();
    result_.before_start_.resize(cells);
    result_.before_end_.resize(cells);
  }

  [[nodiscard]] RankId rank() const { return rank_; }
  void start(InstructionId id, TrackClock clock) { record(id, clock, result_.before_start_); }
  void complete(InstructionId id, TrackClock clock) { record(id, clock, result_.before_end_); }
  [[nodiscard]] HappensBefore take() { return std::move(result_); }

 private:
  void number_lanes(const Program& program) {
    std::map<int, int> lane_of_queue;
    for (InstructionId id = result_.first_; id < last_; id = next(id))
      lane_of_queue[first_queue(program, id)] = 0;
    for (auto& [queue, lane] : lane_of_queue) lane = result_.lanes_++;
    lanes_.resize(lane_of_queue.size());
    for (InstructionId id = result_.first_; id < last_; id = next(id)) {
      const int lane = lane_of_queue[first_queue(program, id)];
      std::vector<InstructionId>& list = lanes_[static_cast<std::size_t>(lane)];
      result_.lane_.push_back(lane);
      result_.index_in_lane_.push_back(static_cast<std::int32_t>(list.size()));
      list.push_back(id);
    }
  }

  /// Instructions of a lane start and complete in turn, so what is known at one is known at the next.
  void record(InstructionId id, TrackClock clock, std::vector<std::int32_t>& rows) {
    std::int32_t* known = known_.data() + static_cast<std::size_t>(result_.lane_of(id)) * lanes_.size();
    for (std::size_t l = 0; l < lanes_.size(); ++l) {
      const std::vector<InstructionId>& lane = lanes_[l];
      auto count = static_cast<std::size_t>(known[l]);
      while (count < lane.size() && is_over(lane[count], clock)) ++count;
      known[l] = static_cast<std::int32_t>(count);
    }
    std::copy_n(known, lanes_.size(), rows.begin() + static_cast<std::ptrdiff_t>(result_.row(id)));
  }

  [[nodiscard]] bool is_over(InstructionId id, TrackClock clock) const {
    const auto own = parts_.of(id);
    return std::all_of(own.begin(), own.end(), [&](const RankParts::Part& part) {
      return clock[static_cast<std::size_t>(part.track)] >= part.count;
    });
  }

  static InstructionId next(InstructionId id) { return InstructionId(id.value() + 1); }

  const RankParts& parts_;
  RankId rank_;
  InstructionId last_;
  std::vector<std::vector<InstructionId>> lanes_;
  std::vector<std::int32_t> known_;  ///< [lane][lane]: how far each is known to be, by the last of a lane
  HappensBefore result_;
};

HappensBeforeMaker::HappensBeforeMaker(const Program& program, const ExecutionGraph& graph,
                                       const RunOrder& order)
    : program_(program),
      order_(order),
      rank_of_(ranks_of_instructions(program)),
      parts_(program, graph),
      pass_(graph, parts_) {
  PPSIM_CHECK(order.complete, "happens-before of a Program that does not finish");
  const auto ranks = static_cast<std::size_t>(program.pipeline().ranks());
  places_ = places_by_rank(rank_of_, ranks, order);
  near_ = ranks_nearby(rank_of_, ranks, graph);
}

RankId HappensBeforeMaker::end_of_batch(RankId first) const {
  constexpr int kMostRanks = 8;
  constexpr std::size_t kMostCounts = std::size_t{1} << 27;
  constexpr std::size_t kTracksPerPeer = 4;  // two directions, two ends
  std::size_t counts = 0;
  RankId rank = first;
  do {
    counts += rank_of_.size() * kTracksPerPeer * near_[rank].size();
    rank = after(rank);
  } while (rank.index() < near_.size() && rank.value() < first.value() + kMostRanks && counts < kMostCounts);
  return rank;
}

std::vector<HappensBefore> HappensBeforeMaker::of_ranks(RankId first, RankId last, Reach reach) {
  parts_.enter(first, last);
  pass_.clear();
  std::vector<Recorder> recorders;
  for (RankId rank = first; rank < last; rank = after(rank)) recorders.emplace_back(program_, parts_, rank);
  run(reach == Reach::everywhere ? order_.items : items_near(first, last), recorders);
  std::vector<HappensBefore> result;
  for (Recorder& recorder : recorders) result.push_back(recorder.take());
  return result;
}

/// Items of the ranks and of their peers, in order.
std::vector<std::uint32_t> HappensBeforeMaker::items_near(RankId first, RankId last) const {
  std::set<RankId> ranks;
  for (RankId rank = first; rank < last; rank = after(rank))
    ranks.insert(near_[rank].begin(), near_[rank].end());
  std::vector<std::uint32_t> items;
  for (const RankId rank : ranks) {
    const auto middle = static_cast<std::ptrdiff_t>(items.size());
    items.insert(items.end(), places_[rank].begin(), places_[rank].end());
    std::inplace_merge(items.begin(), items.begin() + middle, items.end());
  }
  for (std::uint32_t& item : items) item = order_.items[item];
  return items;
}

void HappensBeforeMaker::run(std::span<const std::uint32_t> items, std::vector<Recorder>& recorders) {
  const int first = recorders.front().rank().value();
  for (const std::uint32_t item : items) {
    const InstructionId id(static_cast<std::int32_t>(item / 2));
    const auto index = static_cast<std::size_t>(rank_of_[id.index()].value() - first);
    Recorder* own = index < recorders.size() ? &recorders[index] : nullptr;
    if (item % 2 == 0) {
      const TrackClock clock = pass_.start(id);
      if (own != nullptr) own->start(id, clock);
    } else {
      const TrackClock clock =
          pass_.complete(id, own != nullptr ? parts_.of(id) : std::span<const RankParts::Part>());
      if (own != nullptr) own->complete(id, clock);
    }
  }
}

}  // namespace ppsim
