#include "causality.hpp"

#include <algorithm>
#include <numeric>
#include <span>

namespace ppsim {
namespace {

constexpr std::size_t kMaxTracksAtOnce = 64;              // that are followed together
constexpr std::size_t kMaxCounts = std::size_t{1} << 25;  // held at once
constexpr std::size_t kNowhere = ~std::size_t{0};

/// How far some tracks have certainly come at the items of a stretch of the order. The clocks assume nothing
/// about the order before the stretch, so they are lower bounds.
class CausalityPass {
 public:
  using Clock = std::span<std::int32_t>;

  CausalityPass(const CertificateTracks& tracks, const ExecutionGraph& graph)
      : tracks_(tracks),
        graph_(graph),
        place_of_(tracks.size(), kNowhere),
        instruction_(graph.size(), 0),
        message_(graph.messages.size() * tracks.events(), 0),
        match_(graph.matches.size(), 0) {}

  /// Begins again.
  void follow(std::span<const std::size_t> tracks) {
    for (const std::size_t track : followed_) place_of_[track] = kNowhere;
    followed_.assign(tracks.begin(), tracks.end());
    for (std::size_t i = 0; i < tracks.size(); ++i) place_of_[tracks[i]] = i;
    forgotten_ = made_;
    counts_.clear();
  }

  /// At the item that happened last.
  [[nodiscard]] bool is_over(CertificateTracks::Part part, std::uint32_t item) {
    return clock(instruction_[item / 2])[place_of_[part.track]] >= part.count;
  }

  void happen(std::uint32_t item) {
    const InstructionId id(static_cast<std::int32_t>(item / 2));
    item % 2 == 0 ? start(id) : complete(id);
  }

 private:
  [[nodiscard]] bool has(std::size_t row) const { return row > forgotten_; }
  [[nodiscard]] Clock clock(std::size_t row) {
    const std::size_t width = followed_.size();
    return {counts_.data() + (row - forgotten_ - 1) * width, width};
  }

  std::size_t make() {
    counts_.resize(counts_.size() + followed_.size(), 0);
    return ++made_;
  }
  void merge(std::size_t into, std::size_t from) {
    if (!has(from)) return;
    const Clock to = clock(into);
    std::ranges::transform(to, clock(from), to.begin(), [](auto a, auto b) { return std::max(a, b); });
  }
  void reach(std::size_t row, CertificateTracks::Part part) {
    const std::size_t place = place_of_[part.track];
    if (place != kNowhere) clock(row)[place] = std::max(clock(row)[place], part.count);
  }

  void start(InstructionId id) {
    const std::size_t row = instruction_[id.index()] = make();
    for (const InstructionId before : graph_.predecessors_of(id)) merge(row, instruction_[before.index()]);
  }

  /// Until here the clock of an instruction is that of its start, which its messages and match take in.
  void complete(InstructionId id) {
    if (!has(instruction_[id.index()])) instruction_[id.index()] = make();
    const std::size_t row = instruction_[id.index()];
    const auto over = [&](std::uint32_t m) { return graph_.messages[m].send == id ? sent(m) : received(m); };
    for (const std::uint32_t m : graph_.messages_of(id)) over(m);
    for (const std::uint32_t m : graph_.messages_of(id)) merge(row, over(m));
    if (const std::int32_t match = graph_.match_of[id.index()]; match >= 0) merge(row, met(as_size(match)));
    tracks_.for_each_part(id, [&](CertificateTracks::Part part) { reach(row, part); });
  }

  /// Whether an end of a message is within the stretch. Messages before it are ignored.
  [[nodiscard]] bool is_near(std::size_t m) const {
    const Message& message = graph_.messages[m];
    return has(instruction_[message.send.index()]) || has(instruction_[message.receive.index()]);
  }

  /// The message is out. The one before it need not be read: both have the same queues.
  std::size_t sent(std::size_t m) {
    std::size_t& known = message_[m * tracks_.events()];
    if (has(known)) return known;
    const std::size_t row = known = make();
    const Message& message = graph_.messages[m];
    merge(row, instruction_[message.send.index()]);
    if (!graph_.capabilities.credits) merge(row, instruction_[message.receive.index()]);
    if (message.credit >= 0 && is_near(as_size(message.credit)))
      merge(row, received(as_size(message.credit)));
    reach(row, tracks_.sent(m));
    return row;
  }

  std::size_t received(std::size_t m) {
    if (!graph_.capabilities.credits) return sent(m);
    std::size_t& known = message_[2 * m + 1];
    if (has(known)) return known;
    const std::size_t row = known = make();
    merge(row, sent(m));
    merge(row, instruction_[graph_.messages[m].receive.index()]);
    reach(row, tracks_.received(m));
    return row;
  }

  std::size_t met(std::size_t match) {
    if (has(match_[match])) return match_[match];
    const std::size_t row = match_[match] = make();
    for (const InstructionId member : graph_.members_of(graph_.matches[match]))
      merge(row, instruction_[member.index()]);
    return row;
  }

  const CertificateTracks& tracks_;
  const ExecutionGraph& graph_;
  std::vector<std::size_t> place_of_;     ///< per track, in a clock
  std::vector<std::size_t> followed_;     ///< tracks
  std::vector<std::size_t> instruction_;  ///< row of each, numbered from 1 over all stretches
  std::vector<std::size_t> message_;      ///< row of each message and event
  std::vector<std::size_t> match_;        ///< row of each
  std::size_t forgotten_ = 0;             ///< rows made before this stretch
  std::size_t made_ = 0;
  std::vector<std::int32_t> counts_;
};

/// Takes precedences stretch by stretch of the order, and in a stretch some tracks at a time.
class Search {
 public:
  Search(const CertificateTracks& tracks, const ExecutionGraph& graph,
         const std::vector<std::uint32_t>& order, const std::vector<Precedence>& precedences)
      : order_(order), precedences_(precedences), pass_(tracks, graph), place_(order.size()) {
    for (std::size_t i = 0; i < order.size(); ++i) place_[order[i]] = i;
  }

  std::optional<std::size_t> run() {
    std::vector<std::size_t> all(precedences_.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    std::ranges::sort(all, [&](auto a, auto b) { return begin_of(a) < begin_of(b); });
    for (auto first = all.begin(); first != all.end();) {
      std::size_t end = std::max(begin_of(*first), end_of(*first));
      auto last = first + 1;
      for (; last != all.end() && begin_of(*last) < end; ++last) end = std::max(end, end_of(*last));
      if (auto broken = check_overlapping({first, last}, end - begin_of(*first))) return broken;
      first = last;
    }
    return std::nullopt;
  }

 private:
  /// Only from the start of the instruction on can a part of it be over.
  [[nodiscard]] std::size_t begin_of(std::size_t i) const { return place_[2 * precedences_[i].of.index()]; }
  [[nodiscard]] std::size_t end_of(std::size_t i) const { return place_[precedences_[i].item] + 1; }

  std::optional<std::size_t> check_overlapping(std::vector<std::size_t> some, std::size_t length) {
    const auto track_of = [&](std::size_t i) { return precedences_[i].part.track; };
    std::ranges::sort(some, [&](auto a, auto b) { return track_of(a) < track_of(b); });
    const std::size_t most = std::clamp(kMaxCounts / (2 * length + 1), std::size_t{1}, kMaxTracksAtOnce);
    for (auto first = some.begin(); first != some.end();) {
      std::vector<std::size_t> followed;
      auto last = first;
      for (; last != some.end(); ++last) {
        if (!followed.empty() && followed.back() == track_of(*last)) continue;
        if (followed.size() == most) break;
        followed.push_back(track_of(*last));
      }
      if (auto broken = check(followed, {first, last})) return broken;
      first = last;
    }
    return std::nullopt;
  }

  std::optional<std::size_t> check(const std::vector<std::size_t>& followed, std::vector<std::size_t> batch) {
    std::size_t at = order_.size();
    for (const std::size_t i : batch) {
      if (end_of(i) <= begin_of(i)) return i;
      at = std::min(at, begin_of(i));
    }
    std::ranges::sort(batch, [&](auto a, auto b) { return end_of(a) < end_of(b); });
    pass_.follow(followed);
    for (const std::size_t i : batch) {
      for (; at < end_of(i); ++at) pass_.happen(order_[at]);
      if (!pass_.is_over(precedences_[i].part, precedences_[i].item)) return i;
    }
    return std::nullopt;
  }

  const std::vector<std::uint32_t>& order_;
  const std::vector<Precedence>& precedences_;
  CausalityPass pass_;
  std::vector<std::size_t> place_;  ///< in the order, of each item
};

}  // namespace

std::optional<std::size_t> find_broken(const CertificateTracks& tracks, const ExecutionGraph& graph,
                                       const std::vector<std::uint32_t>& order,
                                       const std::vector<Precedence>& precedences) {
  if (precedences.empty()) return std::nullopt;
  return Search(tracks, graph, order, precedences).run();
}

}  // namespace ppsim
