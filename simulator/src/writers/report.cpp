#include "ppsim/simulator/writers/report.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

#include "metrics/message_times.hpp"
#include "ppsim/core/io/text.hpp"
#include "ppsim/core/ir/check.hpp"
#include "report_page.hpp"
#include "timeline_rows.hpp"

namespace ppsim::simulator {
namespace {

using Json = nlohmann::ordered_json;

/// Collects what the page shows of one run; times in nanoseconds, sizes in bytes.
class EntryData {
 public:
  explicit EntryData(const ReportEntry& entry)
      : entry_(entry), run_(entry.run), program_(entry.run.program) {}

  [[nodiscard]] Json collect() const {
    const StepTimes& times = entry_.metrics.times;
    Json data{{"name", entry_.name},
              {"makespan", times.makespan},
              {"span", rank_span(times)},
              {"ideal", ideal_time(times)},
              {"bubble", bubble_fraction(times)},
              {"bubbleSpan", bubble_fraction_span(times)},
              {"limit", entry_.memory_limit ? Json(*entry_.memory_limit) : Json()},
              {"work", entry_.work},
              {"sameWork", entry_.same_work},
              {"sizesKnown", entry_.sizes_known},
              {"facts", facts()},
              {"ranks", Json::array()},
              {"transfers", transfers()},
              {"critical", critical()},
              {"memoryKinds", memory_by_kind()}};
    for (int r = 0; r < program_.pipeline().ranks(); ++r) data["ranks"].push_back(rank(RankId(r)));
    return data;
  }

 private:
  [[nodiscard]] Json facts() const {
    Json list = Json::array();
    for (const ReportFact& fact : entry_.facts) {
      list.push_back({{"label", fact.label}, {"value", fact.value}, {"tone", static_cast<int>(fact.tone)}});
    }
    return list;
  }

  [[nodiscard]] Json rank(RankId rank) const {
    const RankMetrics& figures = entry_.metrics.ranks[rank];
    const BubbleBreakdown& bubble = figures.bubble;
    Json cells = Json::array();
    for (const TimelineCell& cell : timeline_row(program_, run_.trace, rank))
      cells.push_back(cell_data(rank, cell));
    return {{"busy", figures.times.busy},
            {"bubble",
             {bubble.warmup, bubble.steady, bubble.cooldown, bubble.exposed_communication, bubble.imbalance}},
            {"peak", figures.peak_bytes},
            {"peakAt", figures.peak_at},
            {"live", figures.peak_live_activations},
            {"sent", figures.sent_bytes},
            {"cells", std::move(cells)},
            {"memory", points(entry_.metrics.memory[rank])}};
  }

  /// [start, end, text, waited for, then kind, chunk and microbatch of each action]
  [[nodiscard]] Json cell_data(RankId rank, const TimelineCell& cell) const {
    Json data{cell.start, cell.end, actions_text(program_, cell.instruction), waited_for(cell.instruction)};
    for (const Action& action : program_.actions(cell.instruction)) {
      data.push_back(static_cast<int>(action.kind));
      data.push_back(chunk_of(program_, rank, action));
      data.push_back(info(action.kind).microbatch == MicrobatchUse::required ? action.microbatch : -1);
    }
    return data;
  }

  /// The predecessor that ended when the instruction started.
  [[nodiscard]] std::string waited_for(InstructionId id) const {
    const Instant start = run_.trace.spans[id].start;
    for (const InstructionId before : run_.graph.predecessors_of(id)) {
      if (run_.trace.spans[before].end == start) return actions_text(program_, before);
    }
    return "";
  }

  /// [begin, end, from rank, to rank, text]
  [[nodiscard]] Json transfers() const {
    const std::vector<MessageTimes> times = message_times(run_);
    Json list = Json::array();
    for (std::size_t i = 0; i < times.size(); ++i) {
      const Message& message = run_.graph.messages[i];
      if (!message.complete()) continue;
      list.push_back({times[i].begin.time, times[i].out.time, program_.rank_of(message.send).value(),
                      program_.rank_of(message.receive).value(),
                      action_text(program_.pipeline(), program_.all_actions()[message.send_action])});
    }
    return list;
  }

  /// [start, end, rank, text, reason]
  [[nodiscard]] Json critical() const {
    Json list = Json::array();
    for (const CriticalStep& step : entry_.metrics.critical_path) {
      list.push_back({step.start, step.end, program_.rank_of(step.instruction).value(),
                      actions_text(program_, step.instruction), critical_reason_name(step)});
    }
    return list;
  }

  static Json points(const MemoryProfile& profile) {
    Json list = Json::array();
    for (const MemoryPoint& point : profile.points) list.push_back({point.at.time, point.bytes});
    return list;
  }

  /// Per kind of tensor that takes memory: its name and the points of every rank.
  [[nodiscard]] Json memory_by_kind() const {
    const TensorTable table = tensor_table(program_);
    const std::vector<Bytes> sizes = tensor_sizes(table, run_.sizes);
    Json kinds = Json::array();
    for (int k = 0; k < kTensorKindCount; ++k) {
      const auto kind = static_cast<TensorKind>(k);
      std::vector<Bytes> of_kind(sizes.size(), 0);
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        if (table.tensors[i].size_class.kind == kind) of_kind[i] = sizes[i];
      }
      if (std::all_of(of_kind.begin(), of_kind.end(), [](Bytes size) { return size == 0; })) continue;
      Json ranks = Json::array();
      for (const MemoryProfile& profile : replay_memory(program_, run_.trace, table, of_kind))
        ranks.push_back(points(profile));
      kinds.push_back({{"name", tensor_kind_name(kind)}, {"ranks", std::move(ranks)}});
    }
    return kinds;
  }

  const ReportEntry& entry_;
  const RunView& run_;
  const Program& program_;
};

/// Per kind of action: its text and its colour.
Json kinds(Palette palette) {
  Json list = Json::array();
  for (const OpInfo& kind : kOpTable) {
    list.push_back({{"text", kind.text}, {"colour", hex_text(colour_of(palette, kind.kind))}});
  }
  return list;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

std::string html_text(std::string text) {
  return replaced(replaced(std::move(text), "&", "&amp;"), "<", "&lt;");
}

}  // namespace

void write_report(std::ostream& out, std::span<const ReportEntry> entries, const ReportOptions& options) {
  PPSIM_CHECK(!entries.empty(), "a report of nothing");
  Json data{{"kinds", kinds(options.palette)}, {"overlay", options.overlay}, {"runs", Json::array()}};
  for (const ReportEntry& entry : entries) data["runs"].push_back(EntryData(entry).collect());
  std::string page = replaced(std::string(report_page()), "{{title}}", html_text(options.title));
  page = replaced(std::move(page), "{{hint}}", html_text(options.hint));
  const std::size_t at = page.find("{{data}}");
  PPSIM_CHECK(at != std::string::npos, "the page has no place for its data");
  // "</script>" in a string would end the element that holds the data.
  out << page.substr(0, at) << replaced(data.dump(), "</", "<\\/")
      << page.substr(at + std::string_view("{{data}}").size());
}

}  // namespace ppsim::simulator
