#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/units.hpp"

namespace ppsim::gpu_backend {

/// Receives messages about the other processes while this one does something else. Called from a thread of
/// the bootstrap, or by listen(): return soon, and do not call back.
class BootstrapListener {
 public:
  virtual ~BootstrapListener() = default;
  /// Process 0 alone: a process has sent a note. Returns: an error to stop all processes with, or nothing.
  /// Order: notes of one process arrive as it sent them.
  [[nodiscard]] virtual std::optional<Error> on_note(int process, std::string_view note) = 0;
  /// A process has stopped all, or is gone: it has died or does not answer.
  virtual void on_stop(const Error& error) = 0;
};

/// The time by which the steady clock of a process is ahead of that of process 0; the error is at most
/// `uncertainty_ns`.
struct ClockOffset {
  Nanoseconds offset_ns = 0;
  Nanoseconds uncertainty_ns = 0;
  friend bool operator==(const ClockOffset&, const ClockOffset&) = default;
};

/// Longest time that a process waits for the others; none: for ever.
using Timeout = std::optional<std::chrono::nanoseconds>;

/// The processes of one run, apart from the transfers of its Program: the number of this one, the exchange of
/// bytes among all, and a stop of all. It still works when the transport of the Program hangs, and notices at
/// once when a process dies.
class Bootstrap {
 public:
  virtual ~Bootstrap() = default;

  [[nodiscard]] virtual int process() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  /// Number of this process among those of its host.
  [[nodiscard]] virtual int local_process() const = 0;

  /// Collects the bytes of every process, in ascending order; all call it equally often. When the timeout of
  /// one expires all are stopped, and those that have not arrived count as gone. Errors: the one with which a
  /// process stopped all; io naming the processes that are gone or have not arrived.
  [[nodiscard]] virtual Expected<std::vector<std::string>> allgather(const std::string& bytes,
                                                                     Timeout timeout = {}) = 0;
  /// The same for process 0 alone, whose timeout begins again with each arrival; the others get nothing and
  /// do not wait.
  [[nodiscard]] virtual Expected<std::vector<std::string>> gather(const std::string& bytes,
                                                                  Timeout timeout = {}) = 0;
  [[nodiscard]] Expected<void> barrier(Timeout timeout = {}) {
    return allgather("", timeout).map([](const std::vector<std::string>&) {});
  }
  /// Process 0 alone: restarts the timeout of the processes that wait for it.
  virtual void send_heartbeat() = 0;
  /// Process 0 alone: sends heartbeats until the thread is destroyed.
  [[nodiscard]] std::jthread at_work();

  /// Sends a note to the listener of process 0, which may be this one.
  virtual void note(const std::string& note) = 0;
  /// Stops all: their waits here end with this error, until they resume.
  virtual void stop(const Error& error) = 0;
  /// Clears the stop. Errors: io when a process is gone for good.
  [[nodiscard]] virtual Expected<void> resume() = 0;
  /// Sets the listener; null: none. It hears at once of a stop that has not been resumed from. Requires: it
  /// lives until it is replaced.
  virtual void listen(BootstrapListener* listener) = 0;

  /// Counts a process that does not answer as gone, and stops the others. Process 0 may name any process, the
  /// others only process 0.
  virtual void give_up(int process) = 0;
  /// Processes that are gone for good, ascending; on others than process 0 at most process 0. Process 0
  /// names itself once the others have waited for it until their timeout.
  [[nodiscard]] virtual std::vector<int> gone() const = 0;
  [[nodiscard]] bool all_here() const { return gone().empty(); }
  /// Process 0 alone: the offset of each process, its own included.
  [[nodiscard]] virtual Expected<std::vector<ClockOffset>> clock_offsets(Timeout timeout = {}) = 0;
};

/// The number of a process, and the address where all meet.
struct Membership {
  int process = 0;
  int size = 1;
  int local_process = 0;
  std::string host;  ///< where process 0 listens
  int port = 0;
  std::string token;      ///< a secret of the processes of this run, or at least a text that they share
  double timeout_s = 60;  ///< how long to wait for the others
  friend bool operator==(const Membership&, const Membership&) = default;
};

/// Value of an environment variable, or null.
using Environment = std::function<const char*(const char*)>;

/// Reads what a launcher has set: torchrun (RANK, WORLD_SIZE, LOCAL_RANK), else Open MPI (OMPI_COMM_WORLD_*),
/// else a step of Slurm (SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID), with MASTER_ADDR and
/// MASTER_PORT. Without MASTER_ADDR it takes Slurm's first host, or this one where all processes are here,
/// and without MASTER_PORT 29500; where torchrun's store has the port, the next one. Errors: bad_argument
/// naming the variable that is missing, no number or out of range.
[[nodiscard]] Expected<Membership> membership_from_environment(const Environment& environment);

/// Meets the other processes at `host`:`port` by TCP.
/// Errors: io naming the processes that did not arrive, or that cannot be connected to; bad_argument when two
/// have one number or they do not agree on how many they are.
[[nodiscard]] Expected<std::unique_ptr<Bootstrap>> connect_processes(const Membership& membership);

/// Initialises MPI, once in the life of a process, and meets the other processes of MPI_COMM_WORLD. The MPI
/// transport needs it. Destroy it before main() ends: it finalises MPI.
/// Errors: bad_argument saying how to get MPI where this build has none; io when the processes do not meet.
[[nodiscard]] Expected<std::unique_ptr<Bootstrap>> mpi_bootstrap();
/// Version of the MPI library that this build uses; empty without one.
[[nodiscard]] std::string mpi_version();

/// Bootstraps for `size` threads of this process, for tests of code that runs on several processes.
[[nodiscard]] Expected<std::vector<std::unique_ptr<Bootstrap>>> in_process_bootstraps(int size);

}  // namespace ppsim::gpu_backend

namespace ppsim {
using gpu_backend::Bootstrap;
using gpu_backend::BootstrapListener;
using gpu_backend::ClockOffset;
using gpu_backend::connect_processes;
using gpu_backend::Environment;
using gpu_backend::in_process_bootstraps;
using gpu_backend::Membership;
using gpu_backend::membership_from_environment;
using gpu_backend::mpi_bootstrap;
using gpu_backend::mpi_version;
using gpu_backend::Timeout;
}  // namespace ppsim
