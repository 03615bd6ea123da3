#include "process_signals.hpp"

#include <unistd.h>

#include <chrono>
#include <csignal>

#include "interruption.hpp"

namespace ppsim::cli {
namespace {

using namespace std::chrono_literals;

// mpirun kills a second after it has sent SIGTERM. That a process has died is known by the moment.
constexpr auto kLook = 20ms;
constexpr auto kMoment = 400ms;
constexpr auto kForwarded = 100ms;  // once a process has exited mpirun may drop what others have written
constexpr auto kMaxRest = 2s;

constexpr std::string_view kByInt = "interrupted by SIGINT";
constexpr std::string_view kByTerm = "interrupted by SIGTERM";

std::atomic<int> caught = 0;
static_assert(std::atomic<int>::is_always_lock_free);
void on_signal(int signal) { caught = signal; }

int code_of(int signal) { return signal == SIGTERM ? kTerminated : kInterrupted; }

void pause_for(std::chrono::milliseconds time, const std::stop_token& over) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (!over.stop_requested() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(kLook);
}

}  // namespace

ProcessSignals::ProcessSignals(Bootstrap& all)
    : all_(all), watcher_([this](const std::stop_token& over) { watch(over); }) {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
}

ProcessSignals::~ProcessSignals() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

void ProcessSignals::end_run() {
  while (spoken_.test_and_set()) ::pause();
}

void ProcessSignals::watch(const std::stop_token& over) {
  while (caught == 0) {
    if (over.stop_requested()) return;
    std::this_thread::sleep_for(kLook);
  }
  const int signal = caught;
  if (signal == SIGTERM) pause_for(kMoment, over);
  if (over.stop_requested()) return;
  if (all_.process() == 0 && all_.all_here()) say_interrupted(signal);
  pause_for(kMaxRest, over);  // until the run has ended by itself, or by process 0
  if (!over.stop_requested()) ::_exit(all_.all_here() ? code_of(signal) : kFailed);
}

void ProcessSignals::say_interrupted(int signal) {
  if (spoken_.test_and_set()) return;  // the run has ended just now
  write_interrupted();
  std::this_thread::sleep_for(kForwarded);
  all_.stop({ErrorCode::io, std::string(signal == SIGTERM ? kByTerm : kByInt)});
  ::_exit(code_of(signal));
}

std::optional<int> code_of_interruption(const Error& error) {
  if (error.message.starts_with(kByTerm)) return kTerminated;
  if (error.message.starts_with(kByInt)) return kInterrupted;
  return std::nullopt;
}

}  // namespace ppsim::cli
