#include "several_processes.hpp"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>

#include "interruption.hpp"
#include "process_signals.hpp"

namespace ppsim::cli {
namespace {

const char* variable(const char* name) { return std::getenv(name); }

/// Where a launcher tells a process that it has started how many there are; `only_with` is set by it, too. A
/// batch script of Slurm, which is one process, has no step.
struct SizeVariable {
  const char* name;
  const char* only_with;
};
constexpr SizeVariable kSizes[] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                                   {"PMI_SIZE", "PMI_RANK"},
                                   {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},
                                   {"WORLD_SIZE", "LOCAL_RANK"}};

/// Whether torchrun, mpirun or srun has started this process.
bool is_launched() {
  return variable("RANK") != nullptr || variable("OMPI_COMM_WORLD_RANK") != nullptr ||
         variable("SLURM_STEP_NUM_TASKS") != nullptr;
}

/// The first of these variables that is a number.
std::optional<int> number_in(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    int number = 0;
    if (const char* text = variable(name); text != nullptr && read_number(std::string(text), number))
      return number;
  }
  return std::nullopt;
}

/// MPI waits without limit for a process that does not come.
Expected<std::unique_ptr<Bootstrap>> meet_by_mpi(const Output& output) {
  constexpr unsigned kMaxMeeting_s = 120;
  Output own = output;
  const char* rank = variable("OMPI_COMM_WORLD_RANK");
  own.silent = rank != nullptr && std::string_view(rank) != "0";
  if (own.silent) say_nothing_when_interrupted();
  const TimeLimit limit(
      kMaxMeeting_s,
      {ErrorCode::io,
       "the processes have not met in MPI_Init",
       {.found = "one that has stopped or was not started, after " + std::to_string(kMaxMeeting_s) + " s",
        .expected = "all"}},
      own);
  return mpi_bootstrap();
}

/// mpirun says where nobody is to be met, but MPI knows.
Expected<std::unique_ptr<Bootstrap>> meet_launched(const Output& output, bool one_host) {
  const bool by_mpi = variable("OMPI_COMM_WORLD_RANK") != nullptr && variable("MASTER_ADDR") == nullptr;
  if (by_mpi && !mpi_version().empty()) return meet_by_mpi(output);
  PPSIM_ASSIGN_OR_RETURN(const auto self, membership_from_environment([&](const char* name) {
                           const char* const value = variable(name);
                           const bool is_here = one_host && !launched_on_several_machines() &&
                                                value == nullptr && std::string_view(name) == "MASTER_ADDR";
                           return is_here ? "127.0.0.1" : value;
                         }));
  if (self.process > 0) say_nothing_when_interrupted();
  return connect_processes(self);
}

int run_on(Bootstrap& all, const Output& output, const ProcessRun& run) {
  ProcessSignals signals(all);
  Output own = output;
  own.silent = all.process() > 0;
  const Expected<int> code = run(own, &all);
  signals.end_run();
  if (code) return *code;
  if (const auto interrupted = code_of_interruption(code.error())) return *interrupted;
  all.stop({code.error().code, "process " + std::to_string(all.process()) + ": " + to_string(code.error())});
  // Where process 0 is missing, the next one speaks for all, and each says what it waits for itself.
  const bool orphan = own.silent && !all.all_here();
  if (orphan && all.process() > 1) std::cerr << "ppsim: " << code.error() << '\n';
  own.silent = own.silent && !(orphan && all.process() == 1);
  const std::vector<int> gone = all.gone();
  if (std::ranges::binary_search(gone, all.process())) own.silent = true;  // the others speak
  const int exit = report(code.error(), own);
  std::cout << std::flush;  // before a launcher ends this process
  return exit;
}

}  // namespace

int launched_rank() {
  const bool in_step = variable("SLURM_STEP_NUM_TASKS") != nullptr;
  return number_in({"OMPI_COMM_WORLD_RANK", "PMI_RANK", in_step ? "SLURM_PROCID" : "RANK"}).value_or(0);
}

int launched_on_this_machine() {
  return std::max(
      1, number_in({"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "LOCAL_WORLD_SIZE"}).value_or(1));
}

bool launched_on_several_machines() {
  if (number_in({"SLURM_STEP_NUM_NODES"}).value_or(1) > 1) return true;
  const auto all = number_in({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "WORLD_SIZE"});
  const auto here = number_in({"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "LOCAL_WORLD_SIZE"});
  return all && here && *all > *here;
}

Expected<void> check_alone(const std::string& instead) {
  for (const SizeVariable& size : kSizes) {
    const char* count = variable(size.name);
    int processes = 0;
    if (count == nullptr || variable(size.only_with) == nullptr) continue;
    if (!read_number(count, processes) || processes < 2) continue;
    return make_error(ErrorCode::bad_argument,
                      "a launcher has started " + std::to_string(processes) +
                          " processes, each of which would run the whole program",
                      {.found = std::string(size.name) + "=" + count, .expected = instead});
  }
  return {};
}

int on_mpi_processes(const Output& output, const ProcessRun& run) {
  const auto processes = meet_by_mpi(output);
  return processes ? run_on(**processes, output, run) : report(processes.error(), output);
}

int on_launched_processes(const Output& output, bool one_host, const ProcessRun& run) {
  if (!is_launched()) {
    if (auto alone = check_alone("Open MPI's mpirun, torchrun or srun, or a start without a launcher");
        !alone)
      return report(alone.error(), output);
    const Expected<int> code = run(output, nullptr);
    return code ? *code : report(code.error(), output);
  }
  const auto processes = meet_launched(output, one_host);
  return processes ? run_on(**processes, output, run) : report(processes.error(), output);
}

}  // namespace ppsim::cli
