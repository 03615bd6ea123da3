#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "executor/gpu/gpu_channels.hpp"
#include "ppsim/core/ir/program.hpp"

namespace ppsim::gpu_backend {

/// The input that the ranks of this process need to meet the others.
struct NcclSetup {
  const GpuApi& api;
  const Program& program;
  std::vector<RankDevice*> ranks;             ///< of this process, ascending
  std::function<NcclUniqueId()> exchange_id;  ///< one id for the whole Program
  /// Called while it waits for the other ranks; throws when they will not come.
  std::function<void()> check_abort = [] {};
  int max_ctas = 4;        ///< of a communicator: receives that are posted early stay resident
  double timeout_s = 120;  ///< how long to wait for the other ranks to come to the next contact
};

/// A communicator of one rank. Whoever enqueues takes it for as long as NCCL is called with it, and whoever
/// ends it does so for good: never both at once.
struct NcclCommunicator {
  enum class State : std::uint8_t { idle, taken, over };

  /// Returns: false when it is over.
  [[nodiscard]] bool take() noexcept {
    State idle = State::idle;
    return state.compare_exchange_strong(idle, State::taken) || idle == State::taken;
  }
  void give_back() noexcept {
    State taken = State::taken;
    state.compare_exchange_strong(taken, State::idle);
  }
  /// Returns: false when it is taken, or was over before.
  [[nodiscard]] bool end() noexcept {
    State idle = State::idle;
    return state.compare_exchange_strong(idle, State::over);
  }

  ncclComm* handle = nullptr;
  std::atomic<State> state = State::idle;
};

/// One NCCL communicator for each communicator of the Program with several members, split in order from one
/// over all ranks, non-blocking, and one byte through every channel, in one global order, to connect the
/// peers before the first step.
class NcclChannels final : public GpuChannels {
 public:
  explicit NcclChannels(const NcclSetup& setup);
  ~NcclChannels() override { abort(); }
  NcclChannels(const NcclChannels&) = delete;
  NcclChannels& operator=(const NcclChannels&) = delete;

  void begin_step() override {}
  [[nodiscard]] bool busy(RankId rank) override;
  void post(RankId rank, std::span<const StreamTransfer> ends) override;
  void post(const StreamCollective& call) override;
  void check() override;
  /// Without any traffic left this is also the end of a communicator that waits for nobody.
  void abort() noexcept override;
  /// Begins the end of all communicators but those that NCCL is just called with; the next call takes these.
  void release() noexcept override;

 private:
  using Key = std::pair<CommunicatorId, RankId>;

  void make_root(const NcclSetup& setup);
  void split(CommunicatorId id);
  void warm_up();
  void warm_channel(const Channel& channel);
  void warm_collective(CommunicatorId id);
  [[nodiscard]] std::set<Channel> channels() const;
  [[nodiscard]] RankDevice* local(RankId rank) const;
  [[nodiscard]] NcclCommunicator& communicator(CommunicatorId id, RankId rank);
  [[nodiscard]] NcclCommunicator& communicator_of(const Transfer& transfer);
  [[nodiscard]] bool take(std::span<const StreamTransfer> ends);
  void give_back(std::span<const StreamTransfer> ends);
  void post_taken(RankId rank, std::span<const StreamTransfer> ends);
  [[nodiscard]] int peer_number(CommunicatorId id, RankId rank) const;
  void transfer(const Transfer& transfer, std::span<std::byte> piece, GpuStream stream);
  void settle(ncclComm* communicator, const std::string& what);
  void settle_roots(const std::string& what);
  template <class What>
  [[nodiscard]] bool in_progress(ncclComm* communicator, const What& what) const;
  void finish(const std::string& what);
  void wait(const std::string& what) const;
  void reset_deadline();
  [[nodiscard]] std::string name(CommunicatorId id) const;

  const GpuApi& api_;
  const Program& program_;
  std::vector<RankDevice*> ranks_;
  std::function<void()> check_abort_;
  NcclConfig config_;
  Nanoseconds timeout_ = 0;
  Nanoseconds give_up_ = 0;       ///< when the contact that is awaited has taken too long
  std::vector<ncclComm*> roots_;  ///< per rank of this process
  std::map<Key, NcclCommunicator> communicators_;
  std::map<RankId, std::vector<NcclCommunicator*>> pending_;
  // For the warm-up: a stream and a byte for each rank of this process.
  std::map<RankId, StreamHandle> streams_;
  std::map<RankId, std::span<std::byte>> bytes_;
  std::vector<std::jthread> enders_;  ///< of communicators
};

}  // namespace ppsim::gpu_backend
