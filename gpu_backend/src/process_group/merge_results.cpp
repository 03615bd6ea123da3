#include "merge_results.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

#include "bytes.hpp"

namespace ppsim::gpu_backend {
namespace {

struct Part {
  std::vector<StepBegin> begins;
  std::vector<std::vector<Span>> kept;  ///< of the newest steps: the spans of its instructions
  std::vector<Bytes> high_water;
  std::vector<Nanoseconds> durations;  ///< of the steps
  std::vector<double> losses;
  HostTime host;
  std::vector<BlockGradients> gradients;
};

Part part_of(const std::string& bytes) {
  ByteReader reader(bytes);
  Part part;
  part.begins = reader.get_all<StepBegin>();
  part.kept.resize(reader.get<std::size_t>());
  for (std::vector<Span>& spans : part.kept) spans = reader.get_all<Span>();
  part.high_water = reader.get_all<Bytes>();
  part.durations = reader.get_all<Nanoseconds>();
  part.losses = reader.get_all<double>();
  part.host = reader.get<HostTime>();
  part.gradients.resize(reader.get<std::size_t>());
  for (BlockGradients& gradients : part.gradients) {
    gradients.block = reader.get<BlockId>();
    gradients.rank = reader.get<RankId>();
    gradients.update = reader.get<int>();
    gradients.reduced = reader.get<bool>();
    gradients.values = reader.get_all<std::byte>();
  }
  return part;
}

/// One step of a part, `shift` later than its own clock says.
void place(const std::vector<Span>& from, Nanoseconds shift, InstructionId first, TimedTrace& into) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    Span& span = into.spans[InstructionId(first.value() + static_cast<std::int32_t>(i))];
    span = from[i];
    if (span.start.time >= 0) span.start.time += shift;
    if (span.end.time >= 0) span.end.time += shift;
  }
}

/// The time of a step, from the first start to the last end of all.
Nanoseconds duration(const std::vector<Part>& parts, std::size_t step) {
  Nanoseconds first = std::numeric_limits<Nanoseconds>::max();
  Nanoseconds last = std::numeric_limits<Nanoseconds>::min();
  for (const Part& part : parts) {
    const Nanoseconds start = part.begins[step].zero_ns + part.begins[step].first_start_ns;
    first = std::min(first, start);
    last = std::max(last, start + part.durations[step]);
  }
  return last - first;
}

/// The trace of a step, its zero where the first process has it.
void merge_trace(const std::vector<Part>& parts, std::size_t kept, const std::vector<InstructionId>& firsts,
                 TimedTrace& trace) {
  const auto zero = [kept](const Part& part) {
    return part.begins[part.begins.size() - part.kept.size() + kept].zero_ns;
  };
  const auto earliest =
      std::ranges::min_element(parts, [&](const Part& a, const Part& b) { return zero(a) < zero(b); });
  for (std::size_t p = 0; p < parts.size(); ++p)
    place(parts[p].kept[kept], zero(parts[p]) - zero(*earliest), firsts[p], trace);
}

}  // namespace

std::string result_bytes(const RunResult& result, const PartOfRun& part) {
  const auto first = part.program.first(RankId(part.here.begin)).index();
  const auto end = part.program.last(RankId(part.here.end - 1)).index();
  ByteWriter writer;
  writer.put_all(std::span(part.begins));
  writer.put(result.traces.size());
  for (const TimedTrace& trace : result.traces)
    writer.put_all(std::span(trace.spans.items()).subspan(first, end - first));
  writer.put_all(std::span(result.high_water_bytes.items())
                     .subspan(as_size(part.here.begin), as_size(part.here.end - part.here.begin)));
  writer.put_all(std::span(result.step_ns));
  writer.put_all(std::span(result.losses));
  writer.put(result.host);
  writer.put(result.gradients.size());
  for (const BlockGradients& gradients : result.gradients) {
    writer.put(gradients.block).put(gradients.rank).put(gradients.update).put(gradients.reduced);
    writer.put_all(std::span(gradients.values));
  }
  return writer.take();
}

void merge_results(RunResult& result, const Program& program, const std::vector<std::string>& texts) {
  std::vector<Part> parts;
  std::vector<InstructionId> firsts;
  for (const std::string& text : texts) parts.push_back(part_of(text));
  result.gradients.clear();
  result.host = {};
  std::ranges::fill(result.losses, 0.0);
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const ProcessFigures& figures = result.processes[p];
    for (std::size_t r = 0; r < parts[p].high_water.size(); ++r) {
      const RankId rank(figures.first_rank.value() + static_cast<std::int32_t>(r));
      result.high_water_bytes[rank] = parts[p].high_water[r];
    }
    result.host += parts[p].host;
    for (std::size_t step = 0; step < result.losses.size(); ++step)
      result.losses[step] += parts[p].losses[step];
    for (BlockGradients& gradients : parts[p].gradients) result.gradients.push_back(std::move(gradients));
    for (StepBegin& begin : parts[p].begins) begin.zero_ns -= figures.clock.offset_ns;
    firsts.push_back(program.first(figures.first_rank));
  }
  for (std::size_t step = 0; step < result.step_ns.size(); ++step)
    result.step_ns[step] = duration(parts, step);
  for (std::size_t kept = 0; kept < result.traces.size(); ++kept)
    merge_trace(parts, kept, firsts, result.traces[kept]);
  std::ranges::sort(result.gradients, [](const BlockGradients& a, const BlockGradients& b) {
    return std::tie(a.block, a.update, a.rank) < std::tie(b.block, b.update, b.rank);
  });
}

}  // namespace ppsim::gpu_backend
