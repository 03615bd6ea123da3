#pragma once

#include <stdexcept>
#include <string>

#include "ppsim/core/ir/error.hpp"

namespace ppsim::gpu_backend {

/// The exception of a device, a transport or an action of a run that cannot do its work. execute() catches
/// it and returns its Error.
class BackendError : public std::runtime_error {
 public:
  BackendError(ErrorCode code, const std::string& message)
      : std::runtime_error(message), error_{code, message} {}
  [[nodiscard]] const Error& error() const { return error_; }

 private:
  Error error_;
};

}  // namespace ppsim::gpu_backend

namespace ppsim {
using gpu_backend::BackendError;
}  // namespace ppsim
