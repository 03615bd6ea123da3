#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "served_gpu/wire.hpp"
#include "support/fake_gpu/fake_gpu.hpp"

namespace ppsim::test {

/// The calls that a process of a job may make, and the resources that it leaves behind if it dies.
struct ServedProcess {
  using Handler = std::function<void(Received& message, Message& answer)>;
  struct Late {
    ncclComm* parent;
    std::uint64_t child;
    ncclComm* made = nullptr;
  };

  GpuApi api;
  std::map<Call, Handler> handlers;
  std::mutex mutex;                        ///< of communicators and late
  std::set<ncclComm*> communicators = {};  ///< that were not aborted
  std::deque<Late> late = {};              ///< children of splits that were not handed out
  int connections = 0;
  bool left = false;  ///< it ended as it should
};

/// Fills in the calls that a process may make. Requires: a fake that outlives it.
void serve_calls(ServedProcess& process, FakeGpu& gpu);

/// The strict fake for other processes, each job with its own devices: a job begins when the first of its
/// processes connects, and ends, and is checked, when the last one has left. Devices run by themselves.
class Service {
 public:
  struct Found {
    std::vector<std::string> faults;
    int jobs = 0, processes = 0, max_hosts = 0;
    long calls = 0;
    int running = 0;  ///< processes that still run
  };

  Service(int devices, std::string folder);
  ~Service();
  /// Answers a connection until the other end closes it.
  void answer(int socket);
  [[nodiscard]] Found found();

 private:
  struct Job {
    std::shared_ptr<FakeGpu> gpu;
    std::map<std::uint64_t, std::shared_ptr<ServedProcess>> processes = {};
    std::map<std::uint64_t, int> hosts = {};
    /// Faults when the first of its processes died.
    std::optional<std::vector<Fault>> before_death = {};
  };

  std::pair<std::shared_ptr<Job>, std::shared_ptr<ServedProcess>> come(const Hello& hello);
  void go(const Hello& hello, Job& job);
  void mourn(Job& job, ServedProcess& process);
  void judge(const Job& job);
  void answer_calls(int socket, ServedProcess& process, FakeGpu& gpu);
  void work(const std::stop_token& stop);
  std::vector<std::shared_ptr<FakeGpu>> busy();
  bool moves(FakeGpu& gpu);
  void let_work(FakeGpu& gpu);

  FakeGpuOptions options_;
  std::mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<Job>> jobs_;  ///< by the number that their processes give
  Found found_;
  std::mutex progress_mutex_;
  std::condition_variable progress_;
  std::atomic<long> calls_ = 0;
  std::jthread device_;
};

}  // namespace ppsim::test
