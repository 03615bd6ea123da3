#include "clocks.hpp"

#include <algorithm>
#include <utility>

namespace ppsim {
namespace {

constexpr int kWork = 0;  // the first places of every rank: its computation, its copies
constexpr std::size_t kWorkTracks = 2;
constexpr std::size_t kMaxTracksOfRank = 64;  // of a rank, so that memory stays linear in the Program

void merge(std::int32_t* into, const std::int32_t* from, std::size_t width) {
  for (std::size_t i = 0; i < width; ++i) into[i] = std::max(into[i], from[i]);
}

}  // namespace

CertificateClocks::CertificateClocks(const CertificateTracks& tracks, const Program& program,
                                     const ExecutionGraph& graph, const std::vector<std::uint32_t>& order)
    : tracks_(tracks),
      graph_(graph),
      width_(as_size(program.pipeline().ranks()), kWorkTracks),
      rank_rows_(width_.size()),
      rank_first_(width_.size()),
      ends_(tracks.channels().size()),
      over_(graph.messages.size() * tracks.events(), 0) {
  number_tracks(program);
  number_rows(program);
  for (const std::uint32_t item : order) {
    const InstructionId id(static_cast<std::int32_t>(item / 2));
    item % 2 == 0 ? start(id) : complete(id);
  }
}

int CertificateClocks::add_track(RankId rank, std::size_t tracks) {
  const std::size_t place = width_[rank];
  width_[rank] += tracks;
  return static_cast<int>(place);
}

void CertificateClocks::number_tracks(const Program& program) {
  const auto has_room = [&](RankId rank) { return width_[rank] + tracks_.events() <= kMaxTracksOfRank; };
  std::map<std::pair<RankId, RankId>, std::size_t> pairs;
  for (std::size_t c = 0; c < ends_.size(); ++c) {
    const auto [from, to] = std::pair(rank_at(c, 0), rank_at(c, 1));
    const auto [pair, fresh] = pairs.try_emplace(std::minmax(from, to), between_.size());
    if (fresh) between_.emplace_back();
    pair_of_.push_back(pair->second);
    if (!has_room(from) || !has_room(to)) continue;
    between_[pair->second].push_back(c);
    ends_[c][0].place = add_track(from, tracks_.events());
    ends_[c][1].place = from == to ? ends_[c][0].place : add_track(to, tracks_.events());
  }
  for (std::size_t k = 0; k < program.communicators().size(); ++k) {
    for (const RankId rank : program.communicators()[k].members) {
      if (width_[rank] >= kMaxTracksOfRank) continue;
      const CommunicatorId communicator(static_cast<std::int32_t>(k));
      member_place_[tracks_.membership(communicator, rank)] = add_track(rank, 1);
    }
  }
}

void CertificateClocks::number_rows(const Program& program) {
  std::size_t cells = 0;
  for (const RankId rank : width_.ids()) {
    rank_first_[rank] = program.first(rank);
    rank_rows_[rank] = cells;
    cells += 2 * (program.last(rank).index() - program.first(rank).index()) * width_[rank];
  }
  for (std::size_t c = 0; c < ends_.size(); ++c) {
    const std::size_t rows = (tracks_.channels()[c].last - tracks_.channels()[c].first) * tracks_.events();
    for (const int side : {0, 1}) {
      ends_[c][as_size(side)].rows = cells;
      cells += rows * width_[rank_at(c, side)];
    }
  }
  counts_ = std::make_unique_for_overwrite<std::int32_t[]>(cells);
}

int CertificateClocks::place(RankId rank, CertificateTracks::Part part) const {
  if (part.track < tracks_.first_channel()) return kWork + static_cast<int>(part.track % kWorkTracks);
  if (part.track >= tracks_.first_membership()) {
    const auto entry = member_place_.find(part.track);
    return entry == member_place_.end() ? kUntracked : entry->second;
  }
  const std::size_t channel = (part.track - tracks_.first_channel()) / tracks_.events();
  const std::size_t event = (part.track - tracks_.first_channel()) % tracks_.events();
  const int first = ends_[channel][rank_at(channel, 0) == rank ? 0 : 1].place;
  return first == kUntracked ? kUntracked : first + static_cast<int>(event);
}

void CertificateClocks::start(InstructionId id) {
  const Row clock = row(id, 0);
  const auto predecessors = graph_.predecessors_of(id);
  if (predecessors.empty()) std::fill_n(clock, width(id), 0);
  for (std::size_t i = 0; i < predecessors.size(); ++i) {
    const Row before = row(predecessors[i], 1);
    i == 0 ? static_cast<void>(std::copy_n(before, width(id), clock)) : merge(clock, before, width(id));
  }
}

void CertificateClocks::complete(InstructionId id) {
  const Row clock = row(id, 1);
  std::copy_n(row(id, 0), width(id), clock);
  for (const std::uint32_t m : graph_.messages_of(id)) {
    const bool sends = graph_.messages[m].send == id;
    sends ? send(m) : receive(m);
    merge(clock, sends ? row(m, 0, 0) : row(m, tracks_.events() - 1, 1), width(id));
  }
  for_each_part(id, [&](int place, CertificateTracks::Part part) {
    if (place != kUntracked) clock[place] = std::max(clock[place], part.count);
  });
}

/// The message is out. The one before it need not be read: both have the same queues, so the ends of that
/// one are complete when these start, or start with them in one group.
void CertificateClocks::send(std::size_t m) {
  if (std::exchange(over_[m * tracks_.events()], 1) != 0) return;
  const Message& message = graph_.messages[m];
  const Row sender = row(m, 0, 0);
  const Row receiver = row(m, 0, 1);
  const std::size_t to = width(message.receive);
  const std::size_t from = width(message.send);
  std::copy_n(row(message.send, 0), from, sender);
  if (graph_.capabilities.credits) {
    std::fill_n(receiver, to, 0);
  } else {
    std::copy_n(row(message.receive, 0), to, receiver);
  }
  if (message.credit >= 0) {
    const auto freed = as_size(message.credit);
    receive(freed);
    merge(sender, row(freed, 1, 0), from);
    merge(receiver, row(freed, 1, 1), to);
  }
  exchange(m, 0);
}

void CertificateClocks::receive(std::size_t m) {
  send(m);
  if (!graph_.capabilities.credits || std::exchange(over_[2 * m + 1], 1) != 0) return;
  const Message& message = graph_.messages[m];
  const std::size_t to = width(message.receive);
  const std::size_t from = width(message.send);
  std::copy_n(row(m, 0, 0), from, row(m, 1, 0));
  std::copy_n(row(m, 0, 1), to, row(m, 1, 1));
  merge(row(m, 1, 1), row(message.receive, 0), to);
  exchange(m, 1);
}

/// Each end learns what the other knows of the channels between them, and both learn that the event is over.
void CertificateClocks::exchange(std::size_t m, Event event) {
  for (const int side : {0, 1}) learn(m, event, side);
  for (const int side : {0, 1}) {
    const int first = ends_[tracks_.channel_of(m)][as_size(side)].place;
    if (first == kUntracked) continue;
    row(m, event, side)[first + static_cast<int>(event)] = static_cast<std::int32_t>(m) + 1;
  }
}

void CertificateClocks::learn(std::size_t m, Event event, int side) {
  const std::size_t channel = tracks_.channel_of(m);
  const RankId rank = rank_at(channel, side);
  const Row own = row(m, event, side);
  const Row heard = row(m, event, 1 - side);
  for (const std::size_t c : between_[pair_of_[channel]]) {
    const int here = rank_at(c, 0) == rank ? 0 : 1;
    for (std::size_t e = 0; e < tracks_.events(); ++e) {
      const std::int32_t count = heard[ends_[c][as_size(1 - here)].place + static_cast<int>(e)];
      if (count <= own[ends_[c][as_size(here)].place + static_cast<int>(e)]) continue;
      merge(own, row(as_size(count) - 1, e, here), width_[rank]);
    }
  }
}

}  // namespace ppsim
