#include "several_processes.hpp"

#include <unistd.h>

#include <csignal>
#include <iostream>

namespace ppsim::cli {
namespace {

/// The launcher ends all processes as soon as one has died. They have a moment to say who it was.
void on_terminate(int) {
  constexpr unsigned kMoment = 2;  // seconds
  ::alarm(kMoment);
}
void on_alarm(int) { ::_exit(kFailed); }

}  // namespace

int on_all_processes(const Output& output,
                     const std::function<Expected<int>(const Output&, Bootstrap*)>& run) {
  const auto processes = mpi_bootstrap();
  if (!processes) return report(processes.error(), output);
  std::signal(SIGALRM, on_alarm);
  std::signal(SIGTERM, on_terminate);
  Bootstrap& all = **processes;
  Output own = output;
  own.silent = all.process() > 0;
  const Expected<int> code = run(own, &all);
  if (code) return *code;
  all.stop({code.error().code, "process " + std::to_string(all.process()) + ": " + to_string(code.error())});
  if (own.silent && !all.all_here()) std::cerr << "ppsim: " << code.error() << '\n';
  return report(code.error(), own);
}

}  // namespace ppsim::cli
