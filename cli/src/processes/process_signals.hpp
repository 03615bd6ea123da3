#pragma once

#include <atomic>
#include <thread>

#include "command.hpp"
#include "ppsim/gpu_backend/process_group/bootstrap.hpp"

namespace ppsim::cli {

/// Handles SIGINT and SIGTERM in one process of several while it lives: process 0 stops all,
/// and says for all that they were interrupted; the others end without a word. A launcher sends SIGTERM to
/// those that are left when one has died, too: they have a moment to say who it was. One at a time.
class ProcessSignals {
 public:
  explicit ProcessSignals(Bootstrap& all);
  ~ProcessSignals();
  ProcessSignals(const ProcessSignals&) = delete;
  ProcessSignals& operator=(const ProcessSignals&) = delete;

  /// The run is over, and what is said from here on is its outcome; returns unless the process is about to
  /// end, having said that it was interrupted.
  void end_run();

 private:
  void watch(const std::stop_token& over);
  void say_interrupted(int signal);

  Bootstrap& all_;
  std::atomic_flag spoken_;
  std::jthread watcher_;
};

/// The exit code of a process that another one has told of an interruption; nothing for other errors.
[[nodiscard]] std::optional<int> code_of_interruption(const Error& error);

}  // namespace ppsim::cli
