#pragma once

#include <mpi.h>

#include <array>
#include <memory>

#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/ids.hpp"

namespace ppsim::gpu_backend {

/// Errors: throws BackendError with MPI's own text.
void check_mpi(int result, const char* call);

/// MPI in this process, with communicators of our own. One thread at a time may call MPI.
class MpiWorld {
 public:
  /// Initialises MPI. Errors: io when a process has done so before, or MPI cannot be used by threads.
  [[nodiscard]] static Expected<std::unique_ptr<MpiWorld>> open();
  /// Finalises MPI, unless it was left in disorder: then the launcher cleans up behind the process.
  ~MpiWorld();
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;

  [[nodiscard]] int process() const { return process_; }
  [[nodiscard]] int size() const { return size_; }
  /// Number among the processes of its host, and how many these are.
  [[nodiscard]] int local_process() const { return local_process_; }
  [[nodiscard]] int local_size() const { return local_size_; }

  /// For the messages of even and of odd steps, so that those of a step are told from those of the last.
  [[nodiscard]] MPI_Comm messages(int step) const { return messages_[as_size(step % 2)]; }
  [[nodiscard]] MPI_Comm barriers() const { return barriers_; }
  [[nodiscard]] int largest_tag() const;
  /// Messages are in flight that nobody will receive, or a process is gone.
  void leave_in_disorder() { in_order_ = false; }

 private:
  MpiWorld();

  int process_ = 0;
  int size_ = 1;
  int local_process_ = 0;
  int local_size_ = 1;
  std::array<MPI_Comm, 2> messages_{MPI_COMM_NULL, MPI_COMM_NULL};
  MPI_Comm barriers_ = MPI_COMM_NULL;
  bool in_order_ = true;
};

}  // namespace ppsim::gpu_backend
