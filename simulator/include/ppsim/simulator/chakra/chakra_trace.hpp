#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/units.hpp"

namespace ppsim::simulator {

/// The work of a node of a Chakra trace.
enum class ChakraWork : std::uint8_t {
  nothing,
  host,
  compute,
  memory,  ///< a copy between device and host memory
  send,
  receive,
  collective,
};

/// One node of an execution trace of MLCommons Chakra.
struct ChakraNode {
  std::uint64_t id = 0;
  std::string name;
  ChakraWork work = ChakraWork::nothing;
  std::vector<std::uint32_t> needs;  ///< places of nodes of the same rank, data and control alike
  Nanoseconds duration = 0;
  int from = -1;  ///< of a message, as is `to`: ranks
  int to = -1;
  std::int64_t tag = 0;
  Bytes bytes = 0;    ///< of communication
  std::string group;  ///< of a collective; empty: all ranks
  friend bool operator==(const ChakraNode&, const ChakraNode&) = default;
};

/// The traces of all ranks.
struct ChakraTrace {
  std::vector<std::vector<ChakraNode>> ranks;
  std::map<std::string, std::vector<int>> groups;  ///< ranks of each; of one that is not here: all
  friend bool operator==(const ChakraTrace&, const ChakraTrace&) = default;
};

/// The content of a file.
struct ChakraFile {
  std::string name;
  std::string bytes;
};

/// Reads the traces of ranks 0, 1, ...: protobuf messages behind their lengths, the first one GlobalMetadata,
/// then nodes in any order.
/// Errors: bad_file naming the file, and the byte or the node, for what is cut off or no such message, an id
/// that is missing or given twice, a dependency on a node that is not there or that waits for itself,
/// communication without its ranks or with ranks that are not there, and times above 64 bits.
[[nodiscard]] Expected<ChakraTrace> read_chakra(std::span<const ChakraFile> ranks);

/// Adds the ranks of groups, as write_chakra_groups writes them: {"1": [0, 1]}.
/// Errors: bad_file for anything else, and for ranks that are not there.
[[nodiscard]] Expected<void> add_chakra_groups(std::string_view text, const std::string& file,
                                               ChakraTrace& trace);

/// The time of communication whose nodes have none. Without either it is free.
struct ChakraNetwork {
  double gbytes_per_s = 0;  ///< 0: none is known, and bytes take no time
  double latency_us = 0;
};

/// Start and end of one node.
struct ChakraSpan {
  Nanoseconds start = 0;
  Nanoseconds end = 0;
  friend bool operator==(const ChakraSpan&, const ChakraSpan&) = default;
};

/// A simulated Chakra trace.
struct ChakraRun {
  std::vector<std::vector<ChakraSpan>> spans;  ///< by rank and node
  Nanoseconds makespan = 0;
  std::vector<Nanoseconds> busy;     ///< of the computation of each rank
  std::int64_t free_messages = 0;    ///< and collectives: they have bytes and take no time
  std::int64_t priced_messages = 0;  ///< and collectives: the network says their time, which may be 0
};

/// Each node starts when those it needs are over and, of computation and of copies, no other one of its rank
/// is at work; of several that are ready the one with the smallest id. Messages are rendezvous, the i-th SEND
/// of a pair of ranks and tag to start with the i-th RECV; the i-th collective of a group on a rank meets the
/// i-th of each of its ranks; of those that start at one time the smallest id is the first. Communication
/// takes the longest duration of its nodes or, where these are 0, latency and its bytes over the network.
/// Order: that of nodes within `ranks` changes nothing.
/// Errors: bad_file for a collective of a group that its rank is not in; deadlock naming nodes that never
/// end. Throws Overflow where times add up to more than 64 bits hold.
[[nodiscard]] Expected<ChakraRun> simulate_chakra(const ChakraTrace& trace,
                                                  const ChakraNetwork& network = {});

}  // namespace ppsim::simulator

namespace ppsim {
using simulator::add_chakra_groups;
using simulator::ChakraFile;
using simulator::ChakraNetwork;
using simulator::ChakraNode;
using simulator::ChakraRun;
using simulator::ChakraSpan;
using simulator::ChakraTrace;
using simulator::ChakraWork;
using simulator::read_chakra;
using simulator::simulate_chakra;
}  // namespace ppsim
