// Chakra traces. What is read can be simulated: it takes its time in the order of its dependencies, or is
// refused.

#include "ppsim/simulator/chakra/chakra_trace.hpp"

#include <algorithm>

#include "fuzz.hpp"
#include "ppsim/core/ir/overflow.hpp"

namespace {

using ppsim::fuzz::require;

constexpr std::string_view kBetween = "####";  // the files of one input

/// The traces of ranks 0, 1, ..., and behind the last mark the groups of ranks.
struct Files {
  std::vector<ppsim::ChakraFile> ranks;
  std::string_view groups;
};

Files files_of(std::string_view text) {
  Files files;
  for (std::size_t end = text.find(kBetween); end != std::string_view::npos; end = text.find(kBetween)) {
    files.ranks.push_back({std::to_string(files.ranks.size()) + ".et", std::string(text.substr(0, end))});
    text.remove_prefix(end + kBetween.size());
  }
  files.groups = text;
  return files;
}

void check_trace(const ppsim::ChakraTrace& trace, std::size_t ranks) {
  require(trace.ranks.size() == ranks, "each file is a rank");
  for (const auto& nodes : trace.ranks) {
    for (std::uint32_t i = 0; i < nodes.size(); ++i) {
      require(nodes[i].duration >= 0 && nodes[i].bytes >= 0, "durations and bytes are 0 or more");
      for (const std::uint32_t before : nodes[i].needs)
        require(before < nodes.size() && before != i, "what a node needs is another node");
    }
  }
  for (const auto& [name, members] : trace.groups) {
    std::vector<int> sorted = members;
    std::ranges::sort(sorted);
    require(std::ranges::adjacent_find(sorted) == sorted.end(), "a rank is in a group once");
    require(sorted.empty() || (sorted.front() >= 0 && sorted.back() < static_cast<int>(ranks)),
            "a group has ranks that are there");
  }
}

void check_run(const ppsim::ChakraTrace& trace, const ppsim::ChakraRun& run) {
  ppsim::Nanoseconds end = 0;
  for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
    require(run.busy[r] >= 0 && run.busy[r] <= run.makespan, "a rank computes one node at a time");
    for (std::size_t i = 0; i < trace.ranks[r].size(); ++i) {
      const ppsim::ChakraSpan& span = run.spans[r][i];
      require(span.start >= 0 && span.end - span.start >= trace.ranks[r][i].duration,
              "a node has at least its duration");
      for (const std::uint32_t before : trace.ranks[r][i].needs)
        require(run.spans[r][before].end <= span.start, "a node starts when those it needs are over");
      end = std::max(end, span.end);
    }
  }
  require(end == run.makespan, "the step ends with its last node");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Files files = files_of(ppsim::fuzz::text_of(data, size));
  auto trace = ppsim::read_chakra(files.ranks);
  if (!ppsim::fuzz::read(trace)) return 0;
  if (!ppsim::fuzz::read(ppsim::add_chakra_groups(files.groups, "comm_groups.json", *trace))) return 0;
  check_trace(*trace, files.ranks.size());
  for (const ppsim::ChakraNetwork& network : {ppsim::ChakraNetwork{}, ppsim::ChakraNetwork{1.5, 2}}) {
    try {
      const auto run = ppsim::simulate_chakra(*trace, network);
      if (ppsim::fuzz::read(run)) check_run(*trace, *run);
    } catch (const ppsim::Overflow&) {  // which the interface states
    }
  }
  return 0;
}
