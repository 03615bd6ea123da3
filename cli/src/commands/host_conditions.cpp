#include "host_conditions.hpp"

#include <sys/resource.h>
#include <sys/statvfs.h>

#include <cstdint>
#include <cstdlib>

namespace ppsim::cli {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

std::string value_of(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

std::string mebibytes(std::uint64_t bytes) { return std::to_string(bytes / kMiB) + " MiB"; }

std::string hardware_queues() {
  const std::string set = value_of("CUDA_DEVICE_MAX_CONNECTIONS");
  if (set.empty()) return "not set: the cuda backend sets 32";
  if (set == "1") return "1: runs over NCCL need a proof for nccl-one-queue";
  return set + ": over NCCL a rank with more streams than that is refused";
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
  if (bytes >= 1024 * kMiB) return mebibytes(bytes);
  return mebibytes(bytes) +
         ": little for NCCL between processes; --shm-size=1g or --ipc=host of docker gives more";
}

std::string limit(int resource, std::uint64_t wanted, const std::string& otherwise) {
  rlimit found{};
  if (getrlimit(static_cast<__rlimit_resource_t>(resource), &found) != 0) return "not known";
  if (found.rlim_cur == RLIM_INFINITY) return "unlimited";
  return mebibytes(found.rlim_cur) + (found.rlim_cur < wanted ? otherwise : "");
}

}  // namespace

std::vector<HostCondition> host_conditions() {
  return {
      {"CUDA_DEVICE_MAX_CONNECTIONS", hardware_queues()},
      {"NCCL_NVLS_ENABLE", sums_in_the_switch()},
      {"/dev/shm", shared_memory()},
      {"limit on locked memory",
       limit(RLIMIT_MEMLOCK, UINT64_MAX,
             ": InfiniBand locks what it moves; ulimit -l unlimited, or --ulimit memlock=-1 of docker")},
      {"limit on the stack", limit(RLIMIT_STACK, 64 * kMiB,
                                   ": NVIDIA's containers are run with 64 MiB; --ulimit stack=67108864 of "
                                   "docker")}};
}

}  // namespace ppsim::cli
