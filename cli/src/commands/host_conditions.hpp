#pragma once

#include <string>
#include <vector>

namespace ppsim::cli {

/// Something about this host that a run on GPUs depends on, what it is, and what it should be.
struct HostCondition {
  std::string name;
  std::string detail;
};

/// Variables that CUDA and NCCL read, room for messages between processes, and limits on memory.
[[nodiscard]] std::vector<HostCondition> host_conditions();

}  // namespace ppsim::cli
