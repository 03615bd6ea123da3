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

/// The error of a BackendError; for any other exception, an io error with its text.
[[nodiscard]] inline Error error_of(const std::exception& failure) {
  if (const auto* known = dynamic_cast<const BackendError*>(&failure)) return known->error();
  return {ErrorCode::io, failure.what()};
}

}  // namespace ppsim::gpu_backend

namespace ppsim {
using gpu_backend::BackendError;
}  // namespace ppsim
