#include <algorithm>
#include <array>
#include <string_view>

#include "ppsim/core/text/number_text.hpp"
#include "ppsim/gpu_backend/process_group/bootstrap.hpp"

namespace ppsim::gpu_backend {
namespace {

/// Where one launcher writes who a process is, and what only processes that it started have.
struct Launcher {
  const char* name;
  const char* sign;
  const char* process;
  const char* size;
  const char* local_process;
  const char* local_size;  ///< null: it says otherwise where process 0 is
};
/// In this order: srun starts the daemons of the others, whose processes inherit what it said of a daemon. A
/// batch script, which has SLURM_PROCID and SLURM_NTASKS too, is in no step.
constexpr std::array kLaunchers = {
    Launcher{"torchrun", "RANK", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    Launcher{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
             "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    Launcher{"Slurm", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
             nullptr}};
constexpr const char* kThisHost = "127.0.0.1";
constexpr int kDefaultPort = 29500;
constexpr int kLargestPort = 65535;
constexpr int kMaxProcesses = 1 << 20;

Expected<int> number(const char* variable, const char* text, int least, int most) {
  if (const auto value = parse_number<int>(text); value && *value >= least && *value <= most) return *value;
  return make_error(
      ErrorCode::bad_argument, std::string("the environment variable ") + variable + " is wrong",
      {.found = text, .expected = "a number from " + std::to_string(least) + " to " + std::to_string(most)});
}

class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  Expected<Membership> read() const {
    const Launcher* const launcher =
        std::ranges::find_if(kLaunchers, [&](const Launcher& l) { return environment_(l.sign) != nullptr; });
    if (launcher == kLaunchers.end()) {
      return make_error(ErrorCode::bad_argument, "no launcher has said who this process is",
                        {.found = "none of RANK, OMPI_COMM_WORLD_RANK, SLURM_STEP_NUM_TASKS",
                         .expected = "a start by torchrun, mpirun or srun"});
    }
    const auto self = of_launcher(*launcher);
    return self ? meeting_place(*self, *launcher) : self;
  }

 private:
  Expected<Membership> of_launcher(const Launcher& launcher) const {
    Membership self;
    for (const char* const needed : {launcher.size, launcher.process}) {
      if (environment_(needed) != nullptr) continue;
      return make_error(ErrorCode::bad_argument, std::string(launcher.sign) + " is set and " + needed +
                                                     " is not, which " + launcher.name + " sets with it");
    }
    const char* size = environment_(launcher.size);
    PPSIM_ASSIGN_OR_RETURN(const auto count, number(launcher.size, size, 1, kMaxProcesses));
    PPSIM_ASSIGN_OR_RETURN(const auto process,
                           number(launcher.process, environment_(launcher.process), 0, count - 1));
    self.size = count;
    self.process = process;
    if (const char* text = environment_(launcher.local_process)) {
      PPSIM_ASSIGN_OR_RETURN(const auto local, number(launcher.local_process, text, 0, count - 1));
      self.local_process = local;
    }
    return self;
  }

  Expected<Membership> meeting_place(Membership self, const Launcher& launcher) const {
    self.port = kDefaultPort;
    if (const char* text = environment_("MASTER_PORT")) {
      PPSIM_ASSIGN_OR_RETURN(const auto port, number("MASTER_PORT", text, 1, kLargestPort));
      self.port = port;
    }
    const char* agent = environment_("TORCHELASTIC_USE_AGENT_STORE");
    if (agent != nullptr && std::string_view(agent) == "True" && self.port < kLargestPort) ++self.port;
    if (const char* host = environment_("MASTER_ADDR")) self.host = host;
    if (self.host.empty()) self.host = first_host();
    if (self.host.empty() && all_are_here(self, launcher)) self.host = kThisHost;
    if (self.host.empty() && self.size > 1) {
      return make_error(ErrorCode::bad_argument, "where process 0 is to be met is not known",
                        {.found = "no MASTER_ADDR", .expected = "MASTER_ADDR=host of process 0"});
    }
    if (const char* job = environment_("SLURM_JOB_ID")) self.token = job;
    return self;
  }

  [[nodiscard]] bool all_are_here(const Membership& self, const Launcher& launcher) const {
    const char* here = launcher.local_size == nullptr ? nullptr : environment_(launcher.local_size);
    return here != nullptr && here == std::to_string(self.size);
  }

  /// "gpu[03-07,12],login" -> "gpu03".
  [[nodiscard]] std::string first_host() const {
    const char* list = environment_("SLURM_JOB_NODELIST");
    if (list == nullptr) return {};
    std::string host;
    bool in_brackets = false;
    for (const char c : std::string_view(list)) {
      if (c == ',' || (in_brackets && (c == '-' || c == ']'))) break;
      if (c == '[') {
        in_brackets = true;
      } else {
        host += c;
      }
    }
    return host;
  }

  const Environment& environment_;
};

}  // namespace

Expected<Membership> membership_from_environment(const Environment& environment) {
  return Reader(environment).read();
}

}  // namespace ppsim::gpu_backend
