#include "report_data.hpp"

#include <algorithm>

#include "metrics/message_times.hpp"
#include "report_texts.hpp"
#include "report_waits.hpp"
#include "writers/timeline_rows.hpp"

namespace ppsim::simulator {
namespace {

using Json = nlohmann::ordered_json;

/// Points in time of several ranks: how many each has, and columns of differences.
class PackedProfile {
 public:
  void add(const MemoryProfile& profile) {
    counts_.push_back(profile.points.size());
    Nanoseconds time = 0;
    Bytes bytes = 0;
    for (const MemoryPoint& point : profile.points) {
      time_.add(point.at.time - time);
      bytes_.add(point.bytes - bytes);
      time = point.at.time;
      bytes = point.bytes;
    }
  }
  [[nodiscard]] Json json() const {
    return {{"counts", counts_}, {"time", time_.text()}, {"bytes", bytes_.text()}};
  }

 private:
  std::vector<std::size_t> counts_;
  PackedColumn time_, bytes_;
};

/// A message as the page draws it.
struct Arrow {
  RankId from, to;
  Nanoseconds begin = 0, end = 0;
  const Action* action = nullptr;
};

class RunData {
 public:
  explicit RunData(const ReportEntry& entry)
      : entry_(entry), run_(entry.run), program_(entry.run.program), texts_(program_) {
    for (const RankId rank : program_.pipeline().rank_ids()) {
      rows_.push_back(timeline_row(program_, run_.trace, rank));
      for (std::size_t i = 0; i < rows_.back().size(); ++i)
        place_[rows_.back()[i].instruction.index()] = static_cast<int>(i);
    }
  }

  [[nodiscard]] Json collect() {
    const StepTimes& times = entry_.metrics.times;
    Json data{{"name", entry_.name},
              {"makespan", times.makespan},
              {"step", entry_.step.value_or(times.makespan)},
              {"span", rank_span(times)},
              {"ideal", ideal_time(times)},
              {"bubble", bubble_fraction(times)},
              {"bubbleSpan", bubble_fraction_span(times)},
              {"limit", entry_.memory_limit ? Json(*entry_.memory_limit) : Json()},
              {"work", entry_.work},
              {"sameWork", entry_.same_work},
              {"sizesKnown", entry_.sizes_known},
              {"facts", facts()},
              {"ranks", ranks()},
              {"cells", cells()},
              {"waits", waits()},
              {"transfers", transfers()},
              {"critical", critical()},
              {"memory", memory()},
              {"memoryKinds", memory_by_kind()}};
    data["texts"] = texts_.json();
    return data;
  }

 private:
  [[nodiscard]] Json facts() const {
    Json list = Json::array();
    for (const ReportFact& fact : entry_.facts) {
      list.push_back({{"label", fact.label},
                      {"value", fact.value},
                      {"tone", static_cast<int>(fact.tone)},
                      {"folded", fact.folded}});
    }
    return list;
  }

  [[nodiscard]] Json ranks() const {
    Json list = Json::array();
    for (const RankMetrics& rank : entry_.metrics.ranks) {
      const BubbleBreakdown& bubble = rank.bubble;
      list.push_back(
          {{"busy", rank.times.busy},
           {"bubble",
            {bubble.warmup, bubble.steady, bubble.cooldown, bubble.exposed_communication, bubble.imbalance}},
           {"peak", rank.peak_bytes},
           {"peakAt", rank.peak_at},
           {"live", rank.peak_live_activations},
           {"sent", rank.sent_bytes}});
    }
    return list;
  }

  /// Per cell its instruction, the time since the end of the one before it, and how long it took.
  [[nodiscard]] Json cells() {
    Json counts = Json::array();
    TextColumns what(texts_);
    PackedColumn gap, duration;
    for (const auto& row : rows_) {
      counts.push_back(row.size());
      Nanoseconds end = 0;
      for (const TimelineCell& cell : row) {
        add(what, cell.instruction);
        gap.add(cell.start - end);
        duration.add(cell.end - cell.start);
        end = cell.end;
      }
    }
    return {{"counts", counts}, {"what", what.json()}, {"gap", gap.text()}, {"duration", duration.text()}};
  }

  /// Per cell what it waited for, and the cell behind that: ranks and places away from itself, 0 and 0 for
  /// none.
  [[nodiscard]] Json waits() {
    TextColumns what(texts_);
    PackedColumn rank, place;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      for (std::size_t i = 0; i < rows_[r].size(); ++i) {
        const ReportWait wait = wait_of(run_, rows_[r][i].instruction);
        if (wait.last.valid()) {
          add(what, wait.last);
        } else {
          what.add_nothing();
        }
        rank.add(wait.source.valid() ? program_.rank_of(wait.source).value() - static_cast<int>(r) : 0);
        place.add(wait.source.valid() ? place_[wait.source.index()] - static_cast<int>(i) : 0);
      }
    }
    return {{"what", what.json()}, {"rank", rank.text()}, {"place", place.text()}};
  }

  [[nodiscard]] std::vector<Arrow> arrows() const {
    const MessageClock clock(run_);
    std::vector<Arrow> list;
    for (std::size_t i = 0; i < run_.graph.messages.size(); ++i) {
      const Message& message = run_.graph.messages[i];
      if (!message.complete()) continue;
      const MessageTimes times = clock(i);
      list.push_back({program_.rank_of(message.send), program_.rank_of(message.receive), times.begin.time,
                      times.out.time, &program_.all_actions()[message.send_action]});
    }
    std::ranges::stable_sort(list, {}, [](const Arrow& a) { return std::pair(a.from, a.begin); });
    return list;
  }

  /// Those that a rank sends are in the order in which they begin.
  [[nodiscard]] Json transfers() {
    std::vector<std::size_t> counts(rows_.size(), 0);
    TextColumns what(texts_);
    PackedColumn to, begin, duration;
    Nanoseconds last = 0;
    for (const Arrow& arrow : arrows()) {
      if (counts[arrow.from.index()]++ == 0) last = 0;
      what.add(InstructionForm::single, {arrow.action, 1});
      to.add(arrow.to.value() - arrow.from.value());
      begin.add(arrow.begin - last);
      duration.add(arrow.end - arrow.begin);
      last = arrow.begin;
    }
    return {{"counts", counts},
            {"what", what.json()},
            {"to", to.text()},
            {"begin", begin.text()},
            {"duration", duration.text()}};
  }

  [[nodiscard]] Json critical() {
    TextColumns what(texts_);
    PackedColumn rank, duration;
    const std::vector<CriticalPiece> path = critical_path(entry_.run);
    for (const CriticalPiece& piece : path) {
      add(what, piece.instruction);
      rank.add(program_.rank_of(piece.instruction).value());
      duration.add(piece.end - piece.start);
    }
    return {{"count", path.size()},
            {"start", path.empty() ? 0 : path.front().start},
            {"what", what.json()},
            {"rank", rank.text()},
            {"duration", duration.text()}};
  }

  [[nodiscard]] Json memory() const {
    PackedProfile packed;
    for (const MemoryProfile& profile : entry_.metrics.memory) packed.add(profile);
    return packed.json();
  }

  /// Per kind of tensor that takes memory: its name and the points of every rank.
  [[nodiscard]] Json memory_by_kind() const {
    const TensorTable& table = run_.analyzed.tensors();
    const std::vector<Bytes> sizes = tensor_sizes(table, run_.sizes);
    Json kinds = Json::array();
    for (int k = 0; k < kTensorKindCount; ++k) {
      const auto kind = static_cast<TensorKind>(k);
      std::vector<Bytes> of_kind(sizes.size(), 0);
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        if (table.tensors[i].size_class.kind == kind) of_kind[i] = sizes[i];
      }
      if (std::ranges::all_of(of_kind, [](Bytes size) { return size == 0; })) continue;
      PackedProfile packed;
      for (const MemoryProfile& profile : replay_memory(program_, run_.trace, table, of_kind))
        packed.add(profile);
      kinds.push_back({{"name", info(kind).name}, {"points", packed.json()}});
    }
    return kinds;
  }

  void add(TextColumns& columns, InstructionId id) const {
    columns.add(program_.instruction(id).form, program_.actions(id));
  }

  const ReportEntry& entry_;
  const TimedRun& run_;
  const Program& program_;
  ReportTexts texts_;
  std::vector<std::vector<TimelineCell>> rows_;
  std::vector<int> place_ = std::vector<int>(as_size(run_.program.size()), 0);
};

}  // namespace

Json report_data(const ReportEntry& entry) { return RunData(entry).collect(); }

}  // namespace ppsim::simulator
