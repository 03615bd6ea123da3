#include "merge_results.hpp"

#include <algorithm>
#include <tuple>

#include "bytes.hpp"

namespace ppsim {
namespace {

struct Part {
  std::vector<Nanoseconds> origins;
  std::vector<std::vector<Span>> steps;  ///< spans of its own instructions
  std::vector<Bytes> high_water;
  std::vector<Nanoseconds> durations;  ///< of the steps
  std::vector<double> losses;
  std::vector<BlockGradients> gradients;
};

Part read(const std::string& bytes) {
  ByteReader reader(bytes);
  Part part;
  part.origins = reader.get_all<Nanoseconds>();
  for (std::size_t step = 0; step < part.origins.size(); ++step) part.steps.push_back(reader.get_all<Span>());
  part.high_water = reader.get_all<Bytes>();
  part.durations = reader.get_all<Nanoseconds>();
  part.losses = reader.get_all<double>();
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

}  // namespace

std::string result_bytes(const RunResult& result, const PartOfRun& part) {
  const auto first = part.program.first(RankId(part.here.begin)).index();
  const auto end = part.program.last(RankId(part.here.end - 1)).index();
  ByteWriter writer;
  writer.put_all(std::span(part.origins_ns));
  for (const TimedTrace& trace : result.traces)
    writer.put_all(std::span(trace.spans.items()).subspan(first, end - first));
  writer.put_all(std::span(result.high_water_bytes.items())
                     .subspan(static_cast<std::size_t>(part.here.begin),
                              static_cast<std::size_t>(part.here.end - part.here.begin)));
  writer.put_all(std::span(result.step_ns));
  writer.put_all(std::span(result.losses));
  writer.put(result.gradients.size());
  for (const BlockGradients& gradients : result.gradients) {
    writer.put(gradients.block).put(gradients.rank).put(gradients.update).put(gradients.reduced);
    writer.put_all(std::span(gradients.values));
  }
  return writer.take();
}

void merge_results(RunResult& result, const Program& program, const std::vector<std::string>& texts) {
  std::vector<Part> parts;
  for (const std::string& text : texts) parts.push_back(read(text));
  result.gradients.clear();
  std::fill(result.losses.begin(), result.losses.end(), 0.0);
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const ProcessFigures& figures = result.processes[p];
    for (std::size_t r = 0; r < parts[p].high_water.size(); ++r) {
      const RankId rank(figures.first_rank.value() + static_cast<std::int32_t>(r));
      result.high_water_bytes[rank] = parts[p].high_water[r];
    }
    for (std::size_t step = 0; step < result.losses.size(); ++step)
      result.losses[step] += parts[p].losses[step];
    for (BlockGradients& gradients : parts[p].gradients) result.gradients.push_back(std::move(gradients));
    for (Nanoseconds& origin : parts[p].origins) origin -= figures.clock.offset_ns;
  }
  for (std::size_t step = 0; step < result.traces.size(); ++step) {
    const auto earliest = std::min_element(parts.begin(), parts.end(), [&](const Part& a, const Part& b) {
      return a.origins[step] < b.origins[step];
    });
    result.step_ns[step] = 0;
    for (std::size_t p = 0; p < parts.size(); ++p) {
      const Nanoseconds later = parts[p].origins[step] - earliest->origins[step];
      result.step_ns[step] = std::max(result.step_ns[step], later + parts[p].durations[step]);
      place(parts[p].steps[step], later, program.first(result.processes[p].first_rank), result.traces[step]);
    }
  }
  std::sort(result.gradients.begin(), result.gradients.end(),
            [](const BlockGradients& a, const BlockGradients& b) {
              return std::tie(a.block, a.update, a.rank) < std::tie(b.block, b.update, b.rank);
            });
}

}  // namespace ppsim
