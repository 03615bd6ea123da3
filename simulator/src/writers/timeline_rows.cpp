#include "timeline_rows.hpp"

#include <algorithm>
#include <array>
#include <sstream>

namespace ppsim::simulator {

std::vector<TimelineCell> timeline_row(const Program& program, const TimedTrace& trace, RankId rank) {
  std::vector<TimelineCell> row;
  for (const InstructionId id : program.ids_of(rank)) {
    if (info(program.actions(id)[0].kind).resource != Resource::compute) continue;
    row.push_back({id, trace.spans[id].start.time, trace.spans[id].end.time});
  }
  return row;
}

Nanoseconds timeline_end(const TimedTrace& trace) {
  Nanoseconds end = 0;
  for (const Span& span : trace.spans) end = std::max(end, span.end.time);
  return end;
}

int chunk_of(const Program& program, RankId rank, const Action& action) {
  if (info(action.kind).subject != Subject::stage) return 0;
  const auto stages = program.pipeline().stages_of(rank);
  const auto at = std::ranges::find(stages, action.stage());
  return at == stages.end() ? 0 : static_cast<int>(at - stages.begin());
}

std::string time_text(Nanoseconds time) {
  struct Unit {
    Nanoseconds nanoseconds;
    const char* name;
  };
  constexpr std::array<Unit, 3> kUnits{{{1'000'000'000, " s"}, {1'000'000, " ms"}, {1'000, " us"}}};
  std::ostringstream text;
  for (const Unit& unit : kUnits) {
    if (time < unit.nanoseconds) continue;
    text << static_cast<double>(time) / static_cast<double>(unit.nanoseconds) << unit.name;
    return text.str();
  }
  text << time << (time == 0 ? "" : " ns");
  return text.str();
}

Nanoseconds axis_step(Nanoseconds end, int most) {
  for (Nanoseconds power = 1;; power *= 10) {
    for (const Nanoseconds factor : {1, 2, 5}) {
      if (end / (power * factor) <= most) return power * factor;
    }
  }
}

std::string markup_text(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else if (static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' && c != '\r') {
      result += "\xEF\xBF\xBD";  // U+FFFD: XML has no control characters, not even as numbers
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace ppsim::simulator
