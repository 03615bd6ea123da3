#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "executor/gpu/gpu_channels.hpp"
#include "ipc_loans.hpp"
#include "ppsim/core/execution/execution_graph.hpp"
#include "ppsim/core/ir/program.hpp"
#include "process_group/peers.hpp"
#include "shared_flags.hpp"

namespace ppsim::gpu_backend {

/// The input of channels of copies. References outlive them, functions are called while they open.
struct CopySetup {
  const Program& program;
  const ExecutionGraph& graph;
  std::vector<RankDevice*> ranks;  ///< of this process, ascending
  /// The transfers of an instruction of these ranks; none where a tensor is missing.
  std::function<std::vector<Transfer>(InstructionId)> transfers;
  /// The memory that a collective of these ranks sums.
  std::function<std::span<std::byte>(InstructionId)> summed;
  Peers& peers;
};

/// Messages by copies between the ranks of one host, in one process or several. A RECV says by an event that
/// its memory is free, the SEND copies behind that and says so by another one, which the RECV ends behind: a
/// rendezvous. No stream waits for a number in memory, an order that CUDA does not see and may break where
/// streams share a queue (CUDA Driver API, stream memory operations). A host enqueues a wait only when what
/// it waits for is enqueued, and is told to come back before that.
///
/// A channel has two events, since an instruction begins on a queue when the one before it is complete there:
/// the hosts of both ends have enqueued all waits for a message before the events are recorded for the next.
///
/// Ranks of other processes lend their events and memory by CUDA IPC; which host has enqueued what all see in
/// shared memory.
///
/// Sums of several ranks: the lowest member adds what the others have, in ascending order and with a kernel
/// of its own, into its memory, and copies it to the others. So they are the same bits in every run.
class CopyChannels final : public GpuChannels {
 public:
  /// Requires: all ranks of the Program are on this host; plan_ranks_together().
  explicit CopyChannels(CopySetup setup);
  /// Exchanges what the processes need of each other, before the first step. Even if it throws, each has to
  /// give back.
  void lend_and_borrow();
  ~CopyChannels() override { part(); }
  CopyChannels(const CopyChannels&) = delete;
  CopyChannels& operator=(const CopyChannels&) = delete;

  void begin_step() override { ++pass_; }
  void post(RankId rank, std::span<const StreamTransfer> group) override;
  void post(const StreamCollective& call) override;
  [[nodiscard]] bool may_move(std::size_t message) const override { return is_set(received(message)); }
  [[nodiscard]] bool may_sum(std::size_t collective) const override;
  [[nodiscard]] bool may_end(InstructionId id) const override;
  void move(std::size_t message) override;
  void sum(std::size_t collective) override;
  void end(InstructionId id) override;
  void leave() override { give_back(); }
  [[nodiscard]] bool stopped() const override;
  void check() override {}
  void abort() noexcept override {}    ///< everything enqueued ends by itself
  void release() noexcept override {}  ///< likewise

 private:
  /// An event of this process, or one that another one lends.
  struct SharedEvent {
    EventHandle own;
    CUevent_st* event = nullptr;  ///< null: nothing here records it or waits for it
  };
  struct Line {
    std::uint32_t number = 0;
    SharedEvent ready;  ///< the memory of its RECV is free
    SharedEvent done;   ///< the copy is there
    /// Beside that of its queue, for sends that follow another channel in a group: no member waits for
    /// another one. As the channel itself it is used by one group at a time.
    StreamHandle stream;
  };
  /// A message and what its ends here have enqueued in this step.
  struct MessageEnds {
    const Line* line = nullptr;
    StreamTransfer send;  ///< on the stream that copies
    GpuStream send_queue = nullptr;
    GpuStream receive_queue = nullptr;
    Payload to;  ///< of its RECV
  };
  /// The events of a communicator of sums.
  struct Circle {
    std::vector<SharedEvent> there;  ///< per member: what it adds
    SharedEvent done;
  };
  /// A collective of several ranks. Shape: per member, ascending by rank.
  struct Sum {
    const Circle* circle = nullptr;
    std::size_t flags = 0;                       ///< where its flags begin: of each member, and of the sum
    std::vector<StreamCollective> calls;         ///< of members here
    std::vector<std::span<std::byte>> summands;  ///< of all, at the lowest
  };

  void give_back() noexcept;
  void part() noexcept;
  void open_lines();
  void open_line(InstructionId id, std::size_t member);
  void open_circles();
  void lend();
  void lend_of(const Channel& channel, const Line& line);
  void lend_messages();
  void lend_sums();
  void borrow();
  void borrow_sums();
  [[nodiscard]] bool is_here(RankId rank) const;
  [[nodiscard]] SharedEvent make_event(RankId rank, bool lent) const;
  [[nodiscard]] bool is_abroad(const std::vector<RankId>& members) const;
  [[nodiscard]] GpuStream stream_of(const StreamTransfer& end) const;
  [[nodiscard]] const RankDevice& device_of(RankId rank) const;
  [[nodiscard]] MessageEnds& ends_of(const StreamTransfer& end);
  [[nodiscard]] const std::vector<RankId>& members_of(std::size_t collective) const;

  // The flags: two for each message, then those of the sums, then one for each process.
  static std::size_t received(std::size_t message) { return 2 * message; }
  static std::size_t moved(std::size_t message) { return 2 * message + 1; }
  [[nodiscard]] std::size_t made(const Sum& sum) const { return sum.flags + sum.calls.size(); }
  [[nodiscard]] std::size_t gave_back(int process) const { return first_of_processes_ + as_size(process); }
  [[nodiscard]] bool is_set(std::size_t flag) const { return flags_->reached(flag, pass_); }
  void set(std::size_t flag) { flags_->set(flag, pass_); }

  CopySetup in_;
  RankId first_;
  std::map<Channel, Line> lines_;
  std::map<CommunicatorId, Circle> circles_;
  std::vector<MessageEnds> messages_;  ///< per message of the graph
  std::vector<Sum> sums_;              ///< per collective of the graph
  std::vector<EventHandle> forks_;     ///< per rank
  std::optional<SharedFlags> flags_;
  std::size_t first_of_processes_ = 0;
  SharedFlags::Number pass_ = 0;  ///< of steps; a flag has the last one in which it was set
  IpcLoans loans_;
};

}  // namespace ppsim::gpu_backend
