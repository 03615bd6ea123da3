#pragma once

#include <string>
#include <vector>

namespace ppsim {

/// A backend, and whether this build and this machine have what it needs.
struct BackendStatus {
  std::string name;
  bool available = false;
  std::string detail;  ///< what there is, or what is missing
  friend bool operator==(const BackendStatus&, const BackendStatus&) = default;
};

/// Every backend that `ppsim run --backend` names. Order: by name of BackendOptions, then the others.
[[nodiscard]] std::vector<BackendStatus> backend_statuses();

}  // namespace ppsim
