#include <iostream>

#include "command.hpp"
#include "host_conditions.hpp"
#include "ppsim/gpu_backend/executor/backends.hpp"
#include "ppsim/gpu_backend/process_group/bootstrap.hpp"
#include "ppsim/gpu_backend/stage_model/null_model.hpp"
#include "ppsim/planner/verified_run.hpp"
#include "ppsim/verifier/solver/z3_check.hpp"

namespace ppsim::cli {
namespace {

struct Check {
  std::string name;
  bool good;
  std::string detail;
};

/// Runs the whole chain once on a small schedule.
std::vector<Check> self_test() {
  const auto schedule = generate("1f1b", ScheduleParameters{.ranks = 2, .microbatches = 4});
  if (!schedule) return {{"generate", false, to_string(schedule.error())}};
  const auto program = lower(*schedule, {});
  if (!program) return {{"lower", false, to_string(program.error())}};
  const SolverAnswer answer = deadlock_by_z3({*program, rendezvous()});
  const auto run = verify_then_run(*program, NullModel(), {});
  return {{"generate and lower", true, std::to_string(program->size()) + " instructions"},
          {"Z3", answer.outcome == SolverAnswer::Outcome::deadlock_free, answer.reason},
          {"verify and run on the CPU", run.has_value() && run->run.outcome == RunOutcome::finished,
           run ? "" : to_string(run.error())}};
}

std::string backend_text(const BackendStatus& backend) {
  if (!backend.fault.empty()) return backend.fault + "; " + backend.detail;
  return (backend.available ? "" : "not here: ") + backend.detail;
}

int run_doctor(const Output& output) {
  const auto conditions = host_conditions();  // before the CUDA driver starts, for which variables are set
  std::vector<Check> checks = self_test();
  for (const BackendStatus& backend : backend_statuses())
    checks.push_back({"backend " + backend.name, backend.fault.empty(), backend_text(backend)});
  const std::string mpi = mpi_version();
  checks.push_back(
      {"transport mpi", true,
       mpi.empty() ? "not here: the package ppsim-mpi brings it, or a build with -DPPSIM_MPI=ON" : mpi});
  for (const HostCondition& condition : conditions)
    checks.push_back({condition.name, true, condition.detail});
  bool good = true;
  Json items = Json::array();
  for (const Check& check : checks) {
    good = good && check.good;
    items.push_back({{"check", check.name}, {"good", check.good}, {"detail", check.detail}});
    if (!output.json)
      std::cout << (check.good ? "ok      " : "FAILED  ") << check.name << (check.detail.empty() ? "" : ": ")
                << check.detail << '\n';
  }
  if (output.json) output.print({{"version", PPSIM_VERSION}, {"good", good}, {"checks", items}});
  return good ? kDone : kFailed;
}

}  // namespace

void add_doctor(Command& program) {
  Command command = program.add_subcommand("doctor", "check that this installation works");
  command.runs(run_doctor);
}

}  // namespace ppsim::cli
