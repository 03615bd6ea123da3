#pragma once

#include <cstdint>
#include <vector>

#include "ppsim/core/execution/execution_graph.hpp"
#include "ppsim/core/execution/rank_ranges.hpp"

namespace ppsim {

/// Makes the messages of a graph, where the i-th SEND of a channel meets its i-th RECV: first the transfers
/// of each range of ranks are counted, then all are put together.
class MessageMaker {
 public:
  /// Requires: ranges of all ranks, in their order; program and ranges outlive it.
  MessageMaker(const Program& program, const std::vector<RankRange>& ranges);

  /// Several may count at the same time, each another range.
  void count(std::size_t range);
  /// Fills messages, message_begin and message_items. Requires: every range was counted.
  void make(ExecutionGraph& graph);
  /// Requires: every range was counted.
  [[nodiscard]] bool has_collectives() const;

 private:
  /// A (communicator, source, destination). Its SENDs are all of one rank, and so are its RECVs.
  struct Channel {
    std::uint64_t key = 0;
    std::uint32_t sends = 0;
    std::uint32_t receives = 0;
    std::uint32_t begin = 0;  ///< first message
  };
  /// A transfer: its channel, in the order in which the range uses them first, and which end it is.
  struct End {
    std::uint32_t channel_and_side = 0;
    [[nodiscard]] std::uint32_t channel() const { return channel_and_side / 2; }
    [[nodiscard]] bool sends() const { return channel_and_side % 2 != 0; }
  };
  struct Part {
    std::vector<Channel> channels;
    std::vector<End> ends;  ///< in the order of the instructions
    bool has_collectives = false;
  };
  class ChannelIndex;

  [[nodiscard]] std::vector<std::vector<std::uint32_t>> number_channels();
  void place(std::size_t range, std::uint32_t ends_before, const std::vector<std::uint32_t>& number_of,
             ExecutionGraph& graph);
  void link(const Channel& channel, ExecutionGraph& graph) const;

  const Program& program_;
  const std::vector<RankRange>& ranges_;
  std::vector<Part> parts_;
  std::vector<std::uint32_t> message_begin_;  ///< of the graph; until make() each range counts from 0
  std::vector<Channel> channels_;             ///< of all, in the order of their first use
};

/// Fills matches, match_members and match_of: the i-th collective on a communicator meets the i-th on
/// every member. `any`: whether there is one.
void add_collective_matches(const Program& program, bool any, ExecutionGraph& graph);

}  // namespace ppsim
