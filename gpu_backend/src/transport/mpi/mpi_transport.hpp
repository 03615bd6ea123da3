#pragma once

#include <mpi.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "executor/worker.hpp"
#include "mpi_world.hpp"
#include "pending_requests.hpp"
#include "ppsim/gpu_backend/process_group/bootstrap.hpp"

namespace ppsim::gpu_backend {

/// Channels and collectives between processes. Every send is synchronous (MPI_Issend): it is complete when
/// its receive has begun, which is the rendezvous of E5, and the receipt that frees a credit. A receive is
/// begun once its message is there (MPI_Improbe), so none is ever left behind.
///
/// One thread calls MPI during a step; the queues hand it what they post. Between steps the caller's thread
/// does, and clears away what nobody received.
class MpiTransport final : public Transport {
 public:
  /// Requires: references that outlive the transport. Errors: throws BackendError when MPI has too few tags.
  MpiTransport(MpiWorld& world, const Bootstrap& bootstrap, const RunInput& input, CompletionSink& sink);
  ~MpiTransport() override;
  MpiTransport(const MpiTransport&) = delete;
  MpiTransport& operator=(const MpiTransport&) = delete;

  /// Before the first step it opens every channel, in one order on all processes.
  void begin_step() override;
  void post(std::span<const Transfer> group) override;
  void post(const CollectiveCall& call) override;

 private:
  struct ChannelState {
    int tag = 0;
    std::vector<InstructionId> senders;  ///< of its messages, in order
    std::deque<Transfer> sends;          ///< posted and not out
    std::deque<Transfer> receives;       ///< posted, and their message has not arrived
    int unreceived = 0;                  ///< messages that are out
    std::uint32_t received = 0;
    std::uint32_t sent = 0;
  };
  struct MemberState {
    int up_tag = 0;                            ///< of what it gives to the lowest member
    int down_tag = 0;                          ///< of what it gets back
    std::deque<CollectiveCall> calls;          ///< of a rank of this process: posted and not complete
    std::deque<std::vector<std::byte>> given;  ///< at the lowest member: contributions not used yet
  };
  using Group = std::map<RankId, MemberState>;

  void number_channels();
  [[nodiscard]] int process_of(RankId rank) const;
  [[nodiscard]] bool here(RankId rank) const { return input_.here.has(rank); }
  void open_channels();
  /// Returns: false when the others did not come along.
  bool clear_away(std::chrono::seconds timeout);
  void stop_progress();

  void progress();
  bool take_posted();
  bool start_sends(const Channel& channel, ChannelState& state);
  bool match_receive(const Channel& channel, ChannelState& state);
  void receive(ChannelState& state, const MpiArrival& arrival);
  void check_header(InstructionId receive, const MessageHeader& header, std::uint32_t number,
                    const std::vector<InstructionId>& senders) const;
  bool progress_group(Group& group);
  bool gather_contributions(Group& group);
  [[nodiscard]] static CollectiveCall call_of(RankId rank, const CollectiveCall& own,
                                              std::span<std::byte> given);
  void meet(Group& group);
  void join(const CollectiveCall& call);
  bool take_result(Group& group, MemberState& member);
  void complete(InstructionId id);
  [[nodiscard]] bool anything_awaited() const;

  MpiWorld& world_;
  const Bootstrap& bootstrap_;
  const RunInput& input_;
  const Program& program_;
  CompletionSink& sink_;
  std::map<Channel, ChannelState> channels_;
  std::vector<Group> groups_;  ///< per communicator; empty where it has no collective
  int step_ = -1;
  PendingRequests pending_;

  std::mutex mutex_;  ///< of what follows
  std::condition_variable wake_;
  std::vector<Transfer> posted_;
  std::vector<CollectiveCall> called_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace ppsim::gpu_backend
