#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "device/cuda/gpu_api.hpp"
#include "support/fake_gpu/counts.hpp"
#include "support/fake_gpu/ends.hpp"
#include "support/fake_gpu/faults.hpp"
#include "support/fake_gpu/machine.hpp"
#include "support/fake_gpu/memory.hpp"
#include "support/fake_gpu/nccl/nccl.hpp"

namespace ppsim::test {

using namespace gpu_backend;

/// How far time jumps: beyond every deadline.
inline constexpr Nanoseconds kJump = 1'000'000'000'000'000'000;
/// Of a stream, as devices have it; the lowest is 0.
inline constexpr int kHighestPriority = -5;

struct FakeGpuOptions {
  int devices = 1;            ///< of each host
  int multiprocessors = 132;  ///< of each device
  int groups = 16;            ///< of eight multiprocessors each; no part has a share of one
  std::size_t memory = std::size_t{1} << 32;
  bool one_queue = false;  ///< one hardware queue for each device: CUDA_DEVICE_MAX_CONNECTIONS=1
  Nanoseconds copy_ns = 100;
  Nanoseconds transfer_ns = 300;
  /// The host runs one thread: when it pauses and nothing can complete any more, time jumps, so that
  /// deadlines pass at once.
  bool jumps = true;
  /// Where pinned memory is files, which processes of their own map; empty: nowhere.
  std::string pinned_folder = {};
};

/// Devices, streams, NCCL and the host's clock in virtual time, behind the tables of the executor. It
/// computes what kernels compute, and holds against its user whatever CUDA or NCCL would leave undefined,
/// slow or leaked.
class FakeGpu {
 public:
  explicit FakeGpu(const FakeGpuOptions& options = {});

  /// The tables, as a process of their own has them: what it makes is its own, and others of its host get it
  /// by CUDA IPC. A host has devices of its own. A test wraps entries of them to inject faults. `machine`:
  /// its NCCL_HOSTID. Requires: an object that outlives them.
  [[nodiscard]] GpuApi api(int host = 0, const std::string& machine = {});

  /// Lets time pass to the next completion. Returns: false where nothing can complete.
  bool advance();
  /// The calling thread makes no more calls.
  void forget_thread();

  /// The Pipeline of the host's marks from here on: it holds the ends of every message against each other.
  void know(const Pipeline& pipeline);

  /// Enqueues a kernel that is a function of the CPU, with all that it reads and writes.
  void launch(CUstream_st* stream, TaskDraft kernel);

  /// Everything held against the user so far.
  [[nodiscard]] const std::vector<Fault>& faults() const { return faults_.all(); }
  /// The same while others go on.
  [[nodiscard]] std::vector<Fault> faults_so_far();
  [[nodiscard]] bool found(FaultKind kind) const { return faults_.has(kind); }
  [[nodiscard]] const FakeBooks& books() const { return books_; }
  /// Adds what is still there. Call it once, when all should be gone.
  void check_teardown();
  [[nodiscard]] std::vector<std::string> stuck() const { return machine_.stuck(); }
  /// The tasks that nothing could complete when time jumped last.
  [[nodiscard]] const std::vector<std::string>& stuck_at_jump() const { return stuck_at_jump_; }

 private:
  using Lock = std::scoped_lock<std::recursive_mutex>;
  struct Executable {
    FakeGraph* graph = nullptr;
    bool alive = true;
  };
  /// Of a thread of the host of a process.
  struct Marks {
    int process = 0;
    std::vector<std::string> open = {};
  };

  void fill_devices(CudaTable& cuda, int first);
  void fill_memory(CudaTable& cuda, int process);
  void fill_streams(CudaTable& cuda, int process);
  void fill_events(CudaTable& cuda, int process);
  void fill_ipc(CudaTable& cuda, int process);
  void fill_values(CudaTable& cuda);
  void fill_graphs(CudaTable& cuda, int process);
  void fill_green(CudaTable& cuda, int process);
  void fill_contexts(CudaTable& cuda, int first);
  void fill_communicators(NcclTable& nccl, int process, const std::string& machine);
  void fill_operations(NcclTable& nccl);
  void fill_host(GpuApi& api, int process);

  [[nodiscard]] FakeStream* stream(CUstream_st* handle, const char* call);
  [[nodiscard]] FakeEvent* event(CUevent_st* handle, const char* call, int process);
  [[nodiscard]] std::string mark();
  [[nodiscard]] int current_device();
  [[nodiscard]] int host_of(int process) const { return hosts_[static_cast<std::size_t>(process)]; }
  [[nodiscard]] bool in_step(int process) const;
  void count(int process, std::size_t FakeCounts::*what);
  int abort(ncclComm* one);
  int end_group(const std::function<int()>& end);
  void creating(int process, const std::string& what);
  void needs_context(const char* call);
  void frees_or_asks(const char* call);
  [[nodiscard]] int allocate(std::size_t bytes, const FakeMemory::Wanted& wanted, std::byte** out);

  FakeGpuOptions options_;
  Faults faults_;
  FakeBooks books_;
  FakeMemory memory_;
  FakeMachine machine_;
  Ends ends_;
  FakeNccl nccl_;
  std::recursive_mutex mutex_;
  std::map<std::thread::id, Marks> marks_;
  std::vector<std::string> stuck_at_jump_;
  std::map<std::string, std::string> environment_;
  std::deque<Executable> executables_;
  std::map<CUgreenCtx_st*, bool> green_;  ///< whether it is alive
  std::map<std::thread::id, CUctx_st*> current_;
  std::multiset<std::thread::id> capturing_;
  std::set<std::pair<int, std::string>> loaded_;  ///< kernels, by each process
  /// Where the communicators of a split go once all have come, by the one that is split.
  std::map<ncclComm*, std::vector<std::pair<ncclComm**, ncclComm*>>> splitting_;
  std::vector<int> contexts_;  ///< per device: how often it is retained
  std::size_t allocated_ = 0;
  int ids_ = 0;
  std::vector<int> hosts_;  ///< per process
  int idle_pauses_ = 0;     ///< since something completed
  int streams_ = 0;
};

}  // namespace ppsim::test
