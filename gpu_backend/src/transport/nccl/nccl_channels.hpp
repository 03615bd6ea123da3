#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "call_watch.hpp"
#include "executor/gpu/gpu_channels.hpp"
#include "nccl_calls.hpp"
#include "ppsim/core/ir/program.hpp"

namespace ppsim::gpu_backend {

/// A sum of so many bytes that steps make on a communicator.
struct NcclSum {
  CommunicatorId communicator;
  ElementType type = ElementType::float64;
  std::map<RankId, std::span<std::byte>> payloads;  ///< of its members in this process
};

/// The input that the ranks of this process need to meet the others.
struct NcclSetup {
  const GpuApi& api;
  const Program& program;
  std::vector<RankDevice*> ranks;             ///< of this process, ascending
  std::function<NcclUniqueId()> exchange_id;  ///< one id for the whole Program
  std::vector<NcclSum> sums;                  ///< each of another kind; the same on every rank
  /// The smallest of the numbers that the processes have; alone, its own.
  std::function<int(int own)> smallest_of_all = [](int own) { return own; };
  /// Called while it waits for the other ranks; throws when they will not come.
  std::function<void()> check_abort = [] {};
  int max_ctas = 4;        ///< of a communicator of messages: receives that are posted early stay resident
  bool graphs = false;     ///< steps are captured, where nothing orders the starts of communicators
  double timeout_s = 120;  ///< how long to wait for the other ranks to come to the next contact
};

/// A communicator of one rank. A thread that enqueues takes it while it calls NCCL, and a thread that ends it
/// does so for good. Both happen at once only if the call does not return: NCCL checks for an abort inside
/// every call that waits.
struct NcclCommunicator {
  enum class State : std::uint8_t { idle, taken, held, over };

  /// Returns: false when it is over.
  [[nodiscard]] bool take() noexcept {
    State idle = State::idle;
    return state.compare_exchange_strong(idle, State::taken) || idle != State::over;
  }
  void give_back() noexcept {
    State taken = State::taken;
    if (!state.compare_exchange_strong(taken, State::idle) && taken == State::held)
      state.compare_exchange_strong(taken, State::idle);
  }
  /// Returns: false when it was over before, and for a call that no earlier end() has met.
  [[nodiscard]] bool end() noexcept {
    State now = State::idle;
    if (state.compare_exchange_strong(now, State::over)) return true;
    if (now == State::taken) state.compare_exchange_strong(now, State::held);
    return now == State::held && state.compare_exchange_strong(now, State::over);
  }

  ncclComm* handle = nullptr;
  std::atomic<State> state = State::idle;
};

/// One NCCL communicator for each communicator of the Program with several members. They are split in rounds
/// from one over all ranks, whose calls do not block, so that who waits for others can give up; their own
/// calls block, which costs no thread of NCCL and no question for each group, and a watch ends one that does
/// not return. One byte through every channel and every kind of sum, in one global order, connect the peers
/// before the first step.
class NcclChannels final : public GpuChannels {
 public:
  explicit NcclChannels(const NcclSetup& setup);
  ~NcclChannels() override { abort(); }
  NcclChannels(const NcclChannels&) = delete;
  NcclChannels& operator=(const NcclChannels&) = delete;

  void begin_step() override {}
  void post(RankId rank, std::span<const StreamTransfer> ends) override;
  void post(const StreamCollective& call) override;
  void check() override;
  /// Without any traffic left this is also the end of a communicator that waits for nobody.
  void abort() noexcept override;
  /// Begins the end of all communicators but those that NCCL is just called with; the next call takes these,
  /// and those whose call has not returned since.
  void release() noexcept override;

 private:
  using Key = std::pair<CommunicatorId, RankId>;

  [[nodiscard]] int sum_ctas(int room) const;
  void make_root(const NcclSetup& setup);
  void split(const std::vector<CommunicatorId>& round);
  [[nodiscard]] NcclConfig config_of(CommunicatorId id) const;
  void warm_up(const std::vector<NcclSum>& sums);
  void warm_channel(const Channel& channel);
  void warm_sum(const NcclSum& sum);
  void contact(const std::string& what, const std::function<void()>& calls);
  void end_contact(NcclGroup& group, const std::string& what);
  [[nodiscard]] std::set<Channel> channels() const;
  [[nodiscard]] RankDevice* local(RankId rank) const;
  [[nodiscard]] NcclCommunicator& communicator(CommunicatorId id, RankId rank);
  [[nodiscard]] NcclCommunicator& communicator_of(const Transfer& transfer);
  [[nodiscard]] bool take(std::span<const StreamTransfer> ends);
  [[nodiscard]] bool is_over(std::span<const StreamTransfer> ends);
  void give_back(std::span<const StreamTransfer> ends);
  void post_taken(RankId rank, std::span<const StreamTransfer> ends);
  [[nodiscard]] int peer_number(CommunicatorId id, RankId rank) const;
  void transfer(const Transfer& transfer, std::span<std::byte> piece, GpuStream stream);
  void settle(ncclComm* communicator, const std::string& what);
  void settle_roots(const std::string& what);
  template <class What>
  [[nodiscard]] bool in_progress(ncclComm* communicator, const What& what) const {
    int state = kNcclSuccess;
    must_succeed(api_.nccl, api_.nccl.async_error(communicator, &state), what);
    must_succeed(api_.nccl, state, what);
    return state == kNcclInProgress;
  }
  void finish(const std::string& what);
  void wait(const std::string& what) const;
  void reset_deadline();
  [[nodiscard]] std::string name(CommunicatorId id) const;

  const GpuApi& api_;
  const Program& program_;
  std::vector<RankDevice*> ranks_;
  std::function<void()> check_abort_;
  int max_ctas_ = 0;
  bool graphs_ = false;
  int sum_ctas_ = 0;  ///< of a communicator of sums, at most, where graphs are captured
  std::set<CommunicatorId> of_sums_;
  Nanoseconds timeout_ = 0;
  Nanoseconds give_up_ = 0;       ///< when the contact that is awaited has taken too long
  std::vector<ncclComm*> roots_;  ///< per rank of this process
  ncclComm* nobody_ = nullptr;    ///< the split's result for a rank in no communicator of the round
  std::map<Key, NcclCommunicator> communicators_;
  // For the warm-up: a stream and a byte for each rank of this process.
  std::map<RankId, StreamHandle> streams_;
  std::map<RankId, std::span<std::byte>> bytes_;
  std::vector<std::jthread> enders_;  ///< of communicators
  CallWatch watch_;                   ///< destroyed first: its thread calls release()
};

}  // namespace ppsim::gpu_backend
