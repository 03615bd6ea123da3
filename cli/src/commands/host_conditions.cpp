#include "host_conditions.hpp"

#include <sys/resource.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>

#include "ppsim/core/text/number_text.hpp"
#include "ppsim/gpu_backend/executor/backends.hpp"
#include "ppsim/gpu_backend/process_group/bootstrap.hpp"

namespace ppsim::cli {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

std::string value_of(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

std::string bytes_text(std::uint64_t bytes) {
  if (bytes < kMiB) return std::to_string(bytes >> 10) + " KiB";
  return std::to_string(bytes / kMiB) + " MiB";
}

std::string hardware_queues() {
  const std::string set = value_of("CUDA_DEVICE_MAX_CONNECTIONS");
  if (set.empty()) return "not set: the cuda backend sets 32";
  if (set == "1") return "1: runs over NCCL need a proof for nccl-one-queue";
  const int queues = parse_number<int>(set).value_or(0);
  if (queues < 1 || queues > kMaxHardwareQueues)
    return set +
           ": not a number from 1 to 32, the most that CUDA has; unset it, and the cuda backend sets 32";
  return set + ": over NCCL a rank with more streams than that is refused";
}

std::string launch_order() {
  const std::string set = value_of("NCCL_LAUNCH_ORDER_IMPLICIT");
  if (set.empty()) return "not set: runs over NCCL set what they need";
  if (set == "1") return "1: runs over NCCL with --graphs are refused, which need 0 or it unset";
  if (set == "0") return "0: runs over NCCL are refused unless --graphs is given; unset it";
  return set + ": runs over NCCL are refused; unset it";
}

/// Who this process is among others, as a run would find it.
std::string membership() {
  const auto is_set = [](const char* variable) { return std::getenv(variable) != nullptr; };
  constexpr std::array kSigns = {"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_STEP_NUM_TASKS"};
  if (std::ranges::none_of(kSigns, is_set)) return "none: a run has one process";
  const auto self = membership_from_environment([](const char* name) { return std::getenv(name); });
  if (!self) return "runs are refused: " + to_string(self.error());
  return "process " + std::to_string(self->process) + " of " + std::to_string(self->size) +
         (self->host.empty() ? "" : ", which meet at " + self->host + ":" + std::to_string(self->port));
}

std::string sums_in_the_switch() {
  const std::string set = value_of("NCCL_NVLS_ENABLE");
  if (set.empty()) return "not set: NCCL sums in the switches of NVLink where it can";
  return set + (set == "0" ? ": NCCL does not sum in the switches of NVLink, which takes sums longer" : "");
}

std::string shared_memory() {
  struct statvfs room {};
  if (statvfs("/dev/shm", &room) != 0) return "not there: NCCL needs it between the processes of a host";
  const std::uint64_t bytes = std::uint64_t{room.f_blocks} * room.f_frsize;
  if (bytes >= 1024 * kMiB) return bytes_text(bytes);
  return bytes_text(bytes) +
         ": little for NCCL between processes; --shm-size=1g or --ipc=host of docker gives more";
}

std::string limit(int resource, std::uint64_t wanted, const std::string& otherwise) {
  rlimit found{};
  if (getrlimit(static_cast<__rlimit_resource_t>(resource), &found) != 0) return "not known";
  if (found.rlim_cur == RLIM_INFINITY) return "unlimited";
  return bytes_text(found.rlim_cur) + (found.rlim_cur < wanted ? otherwise : "");
}

}  // namespace

std::vector<HostCondition> host_conditions() {
  return {
      {"CUDA_DEVICE_MAX_CONNECTIONS", hardware_queues()},
      {"NCCL_LAUNCH_ORDER_IMPLICIT", launch_order()},
      {"NCCL_NVLS_ENABLE", sums_in_the_switch()},
      {"launcher", membership()},
      {"/dev/shm", shared_memory()},
      {"limit on locked memory",
       limit(RLIMIT_MEMLOCK, UINT64_MAX,
             ": InfiniBand locks what it moves; ulimit -l unlimited, or --ulimit memlock=-1 of docker")},
      {"limit on the stack", limit(RLIMIT_STACK, 64 * kMiB,
                                   ": NVIDIA's containers are run with 64 MiB; --ulimit stack=67108864 of "
                                   "docker")}};
}

}  // namespace ppsim::cli
