#include "ppsim/planner/trace_file.hpp"

#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <sstream>

#include "kineto/clocks.hpp"
#include "ppsim/core/execution/analyzed_program.hpp"
#include "ppsim/core/io/trace_csv.hpp"
#include "ppsim/core/ir/check.hpp"
#include "ppsim/planner/files.hpp"

namespace ppsim::planner {
namespace {

namespace fs = std::filesystem;

/// By how much clocks of ranks may differ: a host tells when it enqueued the start of a step, and a device
/// begins some microseconds later.
constexpr Nanoseconds kClocksApart = 50'000;

std::string step_file(const std::string& folder, std::size_t step) {
  std::ostringstream name;
  name << "step-" << std::setw(6) << std::setfill('0') << step << ".csv";
  return (fs::path(folder) / name.str()).string();
}

/// The bounds that messages and collectives give for the clocks of ranks: none arrives before it was sent.
/// Nothing where one arrives too early even for clocks that differ by kClocksApart.
std::optional<std::vector<ClockBound>> clock_bounds(const AnalyzedProgram& analyzed,
                                                    const TimedTrace& trace) {
  const Program& program = analyzed.program();
  const ExecutionGraph& graph = analyzed.guaranteed_graph();
  std::vector<ClockBound> bounds;
  bool possible = true;
  const auto add = [&](InstructionId sent, InstructionId there) {
    const Nanoseconds start = trace.spans[sent].start.time;
    const Nanoseconds end = trace.spans[there].end.time;
    if (start < 0 || end < 0 || end - start > 2 * kClocksApart) return;
    possible = possible && start - end <= 2 * kClocksApart;
    bounds.push_back({program.rank_of(sent), program.rank_of(there), end - start});
  };
  for (const Message& message : graph.messages) {
    if (message.complete()) add(message.send, message.receive);
  }
  for (const CollectiveMatch& match : graph.matches) {
    for (const InstructionId member : graph.members_of(match))
      for (const InstructionId other : graph.members_of(match)) add(member, other);
  }
  return possible ? std::optional(std::move(bounds)) : std::nullopt;
}

/// The trace with the clocks of its ranks moved as little as messages require; nothing where kClocksApart is
/// too little.
std::optional<TimedTrace> with_clocks_together(const AnalyzedProgram& analyzed, const TimedTrace& trace) {
  const Program& program = analyzed.program();
  const auto messages = clock_bounds(analyzed, trace);
  if (!messages) return std::nullopt;
  const int ranks = program.pipeline().ranks();
  for (Nanoseconds apart = kClocksApart / 32; apart <= kClocksApart; apart *= 2) {
    std::vector<ClockBound> bounds = *messages;
    for (RankId rank(1); rank.index() < as_size(ranks); rank = next(rank)) {
      bounds.push_back({rank, RankId(0), apart});
      bounds.push_back({RankId(0), rank, apart});
    }
    const auto clocks = middle_offsets(ranks, bounds);
    if (!clocks) continue;
    const Nanoseconds least = std::ranges::min(*clocks, {}, &RankClock::offset).offset;
    TimedTrace moved = trace;
    for (const InstructionId id : program.ids()) {
      for (Instant* const at : {&moved.spans[id].start, &moved.spans[id].end})
        if (happened(*at)) at->time += (*clocks)[program.rank_of(id)].offset - least;
    }
    return moved;
  }
  return std::nullopt;
}

}  // namespace

Expected<void> write_trace_file(const std::string& path, const TimedRun& run) {
  const TracedRun only{"", run};
  return write_trace_file(path, {&only, 1});
}

Expected<void> write_trace_file(const std::string& path, std::span<const TracedRun> runs) {
  const std::string suffix = suffix_of(path);
  std::ostringstream text;
  if (suffix == ".csv") {
    write_trace_csv(text, runs[0].run.program, runs[0].run.trace);
  } else if (suffix == ".json") {
    write_chrome_trace(text, runs);
  } else if (suffix == ".pftrace") {
    write_perfetto_trace(text, runs);
  } else {
    return make_error(ErrorCode::bad_argument, "a trace is .csv, .json or .pftrace",
                      {.found = path, .expected = "one of these suffixes"});
  }
  return write_text_file(path, text.view());
}

Expected<void> check_trace_folder(const std::string& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) return make_error(ErrorCode::io, failed.message(), {.file = folder});
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failed)) {
    if (suffix_of(entry.path().string()) != ".csv") continue;
    return make_error(ErrorCode::bad_argument, "the folder has traces already",
                      {.file = folder, .found = "files that end in .csv", .expected = "another folder"});
  }
  if (failed) return make_error(ErrorCode::io, failed.message(), {.file = folder});
  return check_writable(step_file(folder, 1));
}

Expected<void> write_step_traces(const std::string& folder, const Program& program,
                                 std::span<const TimedTrace> traces, std::size_t last_step) {
  PPSIM_CHECK(traces.size() <= last_step, "see Requires");
  const std::size_t before = last_step - traces.size();
  for (std::size_t i = before == 0 && traces.size() > 1 ? 1 : 0; i < traces.size(); ++i) {
    std::ostringstream text;
    write_trace_csv(text, program, traces[i]);
    PPSIM_RETURN_IF_ERROR(write_text_file(step_file(folder, before + i + 1), text.view()));
  }
  return {};
}

Expected<TimedTrace> read_trace_file(const std::string& path, const Program& program) {
  PPSIM_ASSIGN_OR_RETURN(const auto text, read_text_file(path));
  auto trace = trace_from_csv(text, path, program);
  if (!trace) return trace;
  const AnalyzedProgram analyzed(program, rendezvous());
  const std::vector<Violation> violations = trace_violations(analyzed, *trace);
  if (violations.empty()) return trace;
  if (auto together = with_clocks_together(analyzed, *trace);
      together && trace_violations(analyzed, *together).empty())
    return *std::move(together);
  return make_error(ErrorCode::ill_formed,
                    "no run of this program can have done this: " + violations.front().message,
                    {.file = path});
}

}  // namespace ppsim::planner
